//! Pages that come in pieces, as they do to whoever is far away: nothing that is shown moves.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use std::{io, thread};

use billing_domain::user::Role;

use super::browser::Driver;
use super::user;
use super::who_may::filled;
use crate::samples::Fixture;
use crate::support::World;

const PIECE_BYTES: usize = 256;
const PAUSE: Duration = Duration::from_millis(20);

/// Hands calls on to the server, and its answers back piece by piece; the URL that stands for it.
fn in_pieces(server: SocketAddr) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut browser in listener.incoming().flatten() {
            let mut server = TcpStream::connect(server).expect("the server");
            let (mut calls, mut sink) = (browser.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
            // Either side may hang up.
            thread::spawn(move || drop(io::copy(&mut calls, &mut sink)));
            thread::spawn(move || drop(hand_on(&mut server, &mut browser)));
        }
    });
    url
}

fn hand_on(server: &mut TcpStream, browser: &mut TcpStream) -> io::Result<()> {
    browser.set_nodelay(true)?;
    let mut piece = [0; PIECE_BYTES];
    loop {
        let length = server.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        browser.write_all(&piece[..length])?;
        thread::sleep(PAUSE);
    }
}

#[test]
fn a_page_that_comes_in_pieces_does_not_move() {
    let world = World::new();
    let fixture = Fixture::new(&world, "First");
    user(&world, "owner@first.example", fixture.organization, Role::Owner);
    let Some(mut driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("owner@first.example");
    driver.goes_to(in_pieces(world.addr()));
    let mut moving = Vec::new();
    for page in ["/console/", "/console/customers/{customer_id}/", "/console/customers/{customer_id}/credits/"] {
        let shifts = driver.shifts(&filled(page, &fixture));
        if shifts.iter().any(|shift| *shift != 0.0) {
            moving.push((page, shifts));
        }
    }
    assert!(moving.is_empty(), "{moving:?}");
}
