//! Lists go on where a header says.

use serde_json::{Value, json};

use crate::support::World;

#[test]
fn long_lists_are_read_page_by_page() {
    let world = World::new();
    for i in 0..5 {
        world.post("/api/customers/", &json!({"customer_id": format!("c{i}"), "email": format!("c{i}@b.io")})).ok(201);
        world.post("/api/features/", &json!({"feature_name": format!("f{i}")})).ok(201);
    }
    for (list, field) in [("customers", "customer_id"), ("features", "feature_name")] {
        let all: Vec<Value> = world.get(&format!("/api/{list}/")).ok(200).as_array().expect("a list").clone();
        assert_eq!(all.len(), 5);
        let mut seen = Vec::new();
        let mut path = format!("/api/{list}/?limit=2&x=%20y");
        let mut pages = 0;
        loop {
            let answer = world.get(&path);
            let page = answer.ok(200).as_array().expect("a list").clone();
            assert!(page.len() <= 2);
            seen.extend(page.iter().map(|item| item[field].clone()));
            pages += 1;
            let link = answer.header("link").to_owned();
            let Some(next) = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\"")) else {
                break;
            };
            assert!(next.contains("limit=2") && next.contains("x=%20y"), "{next}");
            path = next.to_owned();
        }
        assert_eq!(pages, 3);
        assert_eq!(seen, all.iter().map(|item| item[field].clone()).collect::<Vec<_>>());
    }
    #[rustfmt::skip]
    let faults = [
        // query,          attr,      code
        ("limit=0",        "limit",   "min_value"),
        ("limit=1001",     "limit",   "max_value"),
        ("limit=x",        "limit",   "invalid"),
        ("cursor=nope",    "cursor",  "invalid"),
    ];
    for (query, attr, code) in faults {
        for list in ["customers", "features", "invoices"] {
            let answer = world.get(&format!("/api/{list}/?{query}"));
            assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())], "{list} {query}");
        }
    }
}
