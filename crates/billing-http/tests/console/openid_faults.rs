//! A provider that misbehaves, or is gone, and whoever comes back otherwise than they were sent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Browser;
use super::openid::{OpenIdWorld, START, ada, is_signed_in};
use super::openid_provider::{CLIENT_SECRET, Signing, Token, rsa_modulus, seconds};

#[test]
fn only_a_token_that_proves_who_it_is_about_is_taken() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    type Forge = fn(&mut Token);
    #[rustfmt::skip]
    let cases: [(Forge, bool, &str); 29] = [
        // token,                                                                        taken, why
        (|_| {},                                                                         true,  "as it should be"),
        (|token| token.by_curve("curve-1"),                                              true,  "signed by the key on a curve"),
        (|token| token.claims["exp"] = seconds(-30).into(),                              true,  "expired by a clock that is behind"),
        (|token| token.claims["exp"] = seconds(-75).into(),                              false, "expired"),
        (|token| token.claims["exp"] = Value::Null,                                      false, "for ever"),
        (|token| token.claims["iat"] = seconds(45).into(),                               true,  "issued by a clock that is ahead"),
        (|token| token.claims["iat"] = seconds(90).into(),                               false, "issued later"),
        (|token| token.claims["iat"] = seconds(-700).into(),                             false, "issued long before it was asked for"),
        (|token| token.claims["nonce"] = "another".into(),                               false, "of another attempt"),
        (|token| token.claims["nonce"] = Value::Null,                                    false, "of any attempt"),
        (|token| token.claims["aud"] = "another client".into(),                          false, "for another audience"),
        (|token| token.claims["aud"] = json!(["billing"]),                               true,  "for this audience alone, as a list"),
        (|token| token.claims["aud"] = json!(["billing", "another client"]),             false, "for others too"),
        (|token| token.claims["azp"] = "billing".into(),                                 true,  "issued to this client"),
        (|token| token.claims["azp"] = "another client".into(),                          false, "issued to another one"),
        (|token| token.claims["iss"] = "https://login.example".into(),                   false, "of another issuer"),
        (|token| token.claims["sub"] = "".into(),                                        false, "about nobody"),
        (|token| token.claims["sub"] = "a".repeat(256).into(),                           false, "about a name that is too long"),
        (|token| token.signing = Signing::Stranger,                                      false, "signed otherwise than it says"),
        (|token| { token.by_curve("curve-1"); token.signing = Signing::Stranger; },      false, "signed by a key that is not the provider's, under the name of one"),
        (|token| { token.by_curve("curve-9"); },                                         false, "by a key that nobody knows"),
        (|token| { token.by_curve("rsa-1"); },                                           false, "by a key under the name of one of another kind"),
        (|token| token.header["kid"] = "later".into(),                                   false, "by a key of a kind that nobody knows"),
        (|token| { token.header = json!({"alg": "none"}); token.signing = Signing::Nothing; }, false, "alg: none"),
        (|token| { token.header = json!({"alg": "None", "kid": "rsa-1"}); token.signing = Signing::Nothing; }, false, "alg: none, written otherwise"),
        (|token| { token.header["alg"] = "HS256".into(); token.signing = Signing::Shared(rsa_modulus()); }, false, "HS256, with the public key as its secret"),
        (|token| { token.header["alg"] = "HS256".into(); token.signing = Signing::Shared(CLIENT_SECRET.as_bytes().to_vec()); }, false, "HS256, with the client's secret, which is no proof either"),
        (|token| { token.header["alg"] = "RS384".into(); },                              false, "an algorithm that is not taken"),
        (|token| { token.header["alg"] = "RS256".into(); token.signing = Signing::Nothing; }, false, "not signed at all"),
    ];
    for (forge, taken, why) in cases {
        here.provider.forges(forge);
        let browser = Browser::new(&here.world);
        let answer = here.come(&browser);
        assert_eq!(is_signed_in(&browser), taken, "{why}: {}", answer.text);
        if !taken {
            let is_told = answer.text.contains("oidc_bad_token") || answer.text.contains("oidc_bad_answer");
            assert!(answer.status == 502 && is_told, "{why}: {}", answer.text);
            assert!(!answer.text.contains("subject-of-ada") && !answer.text.contains("another client"), "{why}");
        }
    }
}

#[test]
fn whoever_comes_back_otherwise_than_they_were_sent_is_not_signed_in() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    let world = &here.world;
    let sent = || {
        let browser = Browser::new(world);
        let back = here.sent(&browser);
        (browser, back)
    };
    let expect = |browser: &Browser, path: &str, code: &str, why: &str| {
        let answer = browser.get(path);
        assert!(answer.status >= 400 && answer.text.contains(code), "{why}: {}", answer.text);
        assert!(!is_signed_in(browser), "{why}");
    };
    let (browser, back) = sent();
    let cookie = browser.cookies.borrow()["openid"].clone();
    let other = Browser::new(world);
    expect(&other, &back, "oidc_expired", "a browser that was not sent");
    let (second, of_second) = sent();
    expect(&browser, &of_second, "oidc_expired", "the code and the state of another one");
    let code_of = |path: &str| path.split(['=', '&']).nth(1).expect("a code").to_owned();
    let swapped = back.replace(&code_of(&back), &code_of(&of_second));
    expect(&second, &swapped, "oidc_expired", "the code of another one, with the state of the first");
    let stolen = of_second.replace(&code_of(&of_second), &code_of(&back));
    expect(&second, &stolen, "oidc_refused", "another one's code: the verifier is not its");
    let (third, back) = sent();
    let cookie_of_third = third.cookies.borrow()["openid"].clone();
    assert_eq!(third.get(&back).status, 303);
    third.cookies.borrow_mut().clear();
    third.cookies.borrow_mut().insert("openid".to_owned(), cookie_of_third);
    expect(&third, &back, "oidc_expired", "again, with a cookie that was kept");
    let guess = Browser::new(world);
    guess.cookies.borrow_mut().insert("openid".to_owned(), format!("{}.{}", &cookie[..8], "a".repeat(32)));
    expect(&guess, &back, "oidc_expired", "the part of a cookie that is shown");
    #[rustfmt::skip]
    let cases = [
        // query,                        code,           why
        ("error=access_denied",          "oidc_denied",  "consent was refused"),
        ("error=server_error",           "oidc_refused", "the provider has a fault"),
        ("error=%3Cscript%3E",           "oidc_refused", "an error that is none"),
        ("nothing=1",                    "oidc_refused", "no code"),
        ("code=made-up",                 "oidc_refused", "a code that the provider does not know"),
        ("code=CODE&iss=https://a.example", "oidc_refused", "another provider's answer"),
    ];
    for (query, code, why) in cases {
        let (browser, back) = sent();
        let state = back.split("state=").nth(1).expect("a state");
        let query = query.replace("CODE", &code_of(&back));
        expect(&browser, &format!("/console/oidc/callback/?{query}&state={state}"), code, why);
    }
    let (browser, back) = sent();
    world.sql("UPDATE sign_in_attempts SET created_at = created_at - interval '10 minutes'");
    expect(&browser, &back, "oidc_expired", "after ten minutes");
    here.provider.refuses(Some("access_denied"));
    let (browser, back) = sent();
    let page = browser.get(&back);
    assert!(
        page.status == 403 && !page.text.contains("<b>no"),
        "nothing that the provider wrote is shown: {}",
        page.text
    );
}

#[test]
fn an_attempt_outlives_the_process_that_began_it() {
    let mut here = OpenIdWorld::new(ada(&["finance"]));
    let (cookies, back) = {
        let browser = Browser::new(&here.world);
        let back = here.sent(&browser);
        (browser.cookies, back)
    };
    here.world.restart();
    let mut browser = Browser::new(&here.world);
    browser.cookies = cookies;
    assert_eq!(browser.get(&back).status, 303, "another process finds it");
    assert!(is_signed_in(&browser));
}

#[test]
fn a_provider_that_is_down_or_says_nonsense_is_told_readably() {
    const HERE: &str = "/.well-known/openid-configuration";
    let foreign = json!({"issuer": "https://login.example", "authorization_endpoint": "https://login.example/a",
        "token_endpoint": "https://login.example/t", "jwks_uri": "https://login.example/k", "response_types_supported": ["code"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"]});
    let mut plain = foreign.clone();
    let long = "a".repeat(70_000);
    let here = OpenIdWorld::with(ada(&["finance"]), |_, _| {});
    plain["issuer"] = here.provider.issuer.clone().into();
    plain["jwks_uri"] = "http://login.example/k".into();
    #[rustfmt::skip]
    let cases = [
        // path,    answer,                             code,               why
        (HERE,      (500, "secret cause".to_owned()),   "oidc_bad_answer",  "it has a fault"),
        (HERE,      (200, "<html>".to_owned()),         "oidc_bad_answer",  "it is something else"),
        (HERE,      (302, String::new()),               "oidc_bad_answer",  "it is elsewhere, and redirects are not followed"),
        (HERE,      (200, foreign.to_string()),         "oidc_bad_answer",  "it is another issuer's"),
        (HERE,      (200, plain.to_string()),           "oidc_bad_answer",  "its keys would come over plain HTTP from another machine"),
        (HERE,      (200, long.clone()),                "oidc_bad_answer",  "it is too long"),
        ("/keys",   (404, String::new()),               "oidc_bad_answer",  "it has no keys"),
    ];
    let browser = Browser::new(&here.world);
    for (path, (status, body), code, why) in cases {
        here.provider.answers(path, Some((status, &body)));
        let answer = browser.get(START);
        here.provider.answers(path, None);
        assert!(answer.status == 502 && answer.text.contains(code), "{why}: {}", answer.text);
        assert!(!answer.text.contains("secret cause") && !answer.text.contains("login.example"), "{why}");
    }
    #[rustfmt::skip]
    let cases = [
        // answer of the token endpoint,                                                     code,              why
        ((500, "secret cause".to_owned()),                                                   "oidc_bad_answer", "a fault"),
        ((200, "{}".to_owned()),                                                             "oidc_bad_answer", "no token"),
        ((200, json!({"access_token": "a", "token_type": "Bearer"}).to_string()),            "oidc_bad_answer", "no ID token"),
        ((200, json!({"access_token": "a", "token_type": "Bearer", "id_token": "a.b.c"}).to_string()), "oidc_bad_answer", "an ID token that is none"),
        ((401, json!({"error": "invalid_client"}).to_string()),                              "oidc_refused",    "it does not know this service"),
        ((200, long),                                                                        "oidc_bad_answer", "it is too long"),
    ];
    for ((status, body), code, why) in cases {
        let browser = Browser::new(&here.world);
        let back = here.sent(&browser);
        here.provider.answers("/token", Some((status, &body)));
        let answer = browser.get(&back);
        here.provider.answers("/token", None);
        assert!(answer.status >= 400 && answer.text.contains(code), "{why}: {}", answer.text);
        assert!(!is_signed_in(&browser) && !answer.text.contains("secret cause"), "{why}");
    }
    let back = here.sent(&browser);
    here.provider.takes(Duration::from_secs(20));
    let began = Instant::now();
    let answer = browser.get(&back);
    assert!(answer.status == 502 && answer.text.contains("oidc_unreachable"), "it is slow: {}", answer.text);
    assert!(began.elapsed() < Duration::from_secs(8), "and nobody waits for it: {:?}", began.elapsed());
    here.provider.takes(Duration::ZERO);
    assert_eq!(here.come(&browser).status, 303, "and then it works");
}

#[test]
fn keys_are_asked_for_again_when_one_is_unknown_but_not_at_once() {
    let here = OpenIdWorld::with(ada(&["finance"]), |_, openid| openid.keys_rest = Duration::from_secs(6));
    let world = &here.world;
    let come = |key: &'static str| {
        here.provider.forges(move |token| token.by_curve(key));
        let browser = Browser::new(world);
        here.come(&browser);
        (is_signed_in(&browser), here.provider.calls("/keys"))
    };
    assert_eq!(come("curve-1"), (true, 1));
    assert_eq!(come("curve-1"), (true, 1), "keys are remembered");
    here.provider.changes_key("curve-2");
    assert_eq!(come("curve-2"), (false, 1), "they were asked for a moment ago");
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(come("curve-2"), (true, 2), "another key, in the middle of everything");
    assert_eq!(come("curve-2"), (true, 2));
    for _ in 0..5 {
        assert_eq!(come("made-up"), (false, 2), "made-up names bring no flood upon the provider");
    }
    assert_eq!(here.provider.calls("/.well-known/openid-configuration"), 1, "what it says of itself is remembered");
}

#[test]
fn signing_in_with_the_provider_is_throttled_as_passwords_are() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    let browser = Browser::new(&here.world);
    let statuses: Vec<u16> = (0..61).map(|_| browser.get(START).status).collect();
    assert_eq!((statuses[59], statuses[60]), (303, 429), "{statuses:?}");
    let answer = browser.get(START);
    assert!(answer.text.contains("oidc_too_many_tries"), "{}", answer.text);
    assert_eq!(browser.sign_in("ada@acme.example", "wrong").status, 429, "nor with a password from there");
}

#[test]
fn a_database_that_cannot_be_asked_signs_nobody_in_and_spoils_nothing() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    let world = &here.world;
    let browser = Browser::new(world);
    let back = here.sent(&browser);
    world.sql_at_home("ALTER TABLE sign_in_attempts RENAME TO gone");
    for path in [START, &back] {
        let answer = browser.get(path);
        assert!(answer.status == 503 && answer.text.contains("oidc_unavailable"), "{path}: {}", answer.text);
    }
    world.sql_at_home("ALTER TABLE gone RENAME TO sign_in_attempts; ALTER TABLE user_identities RENAME TO gone");
    let second = Browser::new(world);
    let answer = here.come(&second);
    assert!(answer.status == 503 && !is_signed_in(&second), "{}", answer.text);
    world.sql_at_home("ALTER TABLE gone RENAME TO user_identities");
    assert_eq!(browser.get(&back).status, 303, "the first one's attempt is still there, and so is the code");
}
