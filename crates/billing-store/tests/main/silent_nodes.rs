//! A node that cannot be reached, and others beside it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::customer::Customer;
use billing_domain::{Error, StoreError};
use billing_store::PgStore;

use crate::nodes::{Spread, spread};
use crate::sql::execute;
use crate::waiting::{PATIENCE, until};

/// An address where nobody is let in.
struct Address {
    port: u16,
    callers: Arc<Mutex<Vec<TcpStream>>>,
}

impl Address {
    /// Callers are heard and told nothing; or turned away at once.
    fn new(is_silent: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let callers = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = Arc::clone(&callers);
        thread::spawn(move || {
            for caller in listener.incoming() {
                let caller = caller.expect("a caller");
                if !is_silent {
                    caller.shutdown(std::net::Shutdown::Both).unwrap_or_default();
                }
                kept.lock().expect("the callers").push(caller);
            }
        });
        Self { port, callers }
    }

    fn calls(&self) -> usize {
        self.callers.lock().expect("the callers").len()
    }
}

/// A process that finds the node there.
fn led_to(spread: Spread, address: &Address) -> Spread {
    let sql = format!("UPDATE nodes SET host = '127.0.0.1', port = {}", address.port);
    execute(&spread.home, &sql).expect("another address");
    Spread { store: PgStore::connect(&spread.home, 12).expect("connected"), ..spread }
}

fn make(spread: &Spread, customer: &Customer) -> Result<(), Error> {
    spread.run(customer, |tx, _| tx.customers().insert(customer))
}

/// Customers of lane 1, which is on the node, and of lane 3, which is at home.
fn customers(spread: &Spread) -> (Customer, Customer) {
    let (_, mut of_lanes) = spread.furnished();
    (of_lanes.remove(1), of_lanes.remove(2))
}

#[test]
fn a_node_that_says_nothing_keeps_nobody_from_those_that_answer() {
    let (spread, silent) = (spread(), Address::new(true));
    let (there, at_home) = customers(&spread);
    let spread = led_to(spread, &silent);
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| assert!(matches!(make(&spread, &there), Err(Error::Store(StoreError::Unavailable(_))))));
        }
        // As many as ever connect to one server at once.
        until("it is called", || silent.calls() >= 4);
        assert_eq!(make(&spread, &at_home), Ok(()), "on connections that are made for it");
    });
    until("a call is given up and made anew", || silent.calls() > 8);
}

#[test]
fn whoever_asks_a_node_that_is_away_for_long_waits_no_more() {
    let (spread, address) = (spread(), Address::new(false));
    let (there, _) = customers(&spread);
    let spread = led_to(spread, &address);
    let began = Instant::now();
    for _ in 0..60 {
        assert!(matches!(make(&spread, &there), Err(Error::Store(StoreError::Unavailable(_)))));
    }
    // Each would have waited a second.
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn nobody_connects_where_a_node_was_before() {
    let spread = spread();
    let (host, port) = (spread.home("SELECT host FROM nodes"), spread.home("SELECT port FROM nodes"));
    let address = Address::new(false);
    let (there, _) = customers(&spread);
    let spread = led_to(spread, &address);
    assert!(make(&spread, &there).is_err());
    assert!(address.calls() > 0);
    execute(&spread.home, &format!("UPDATE nodes SET host = '{host}', port = {port}")).expect("its own address");
    until("it is found there", || make(&spread, &there).is_ok());
    let mut calls = 0;
    until("the other address is left alone", || {
        let before = std::mem::replace(&mut calls, address.calls());
        // Longer than there is ever between two calls.
        thread::sleep(Duration::from_secs(2));
        before == address.calls()
    });
}
