//! An OpenID provider on this machine, which vouches for whomever it is told to, and misbehaves on demand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use billing_console::Fields;
use hmac::{Hmac, KeyInit, Mac};
use rustls::crypto::aws_lc_rs::default_provider as crypto_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

pub const CLIENT_ID: &str = "billing";
pub const CLIENT_SECRET: &str = "the secret of the client: %&+/";
/// A key of tests and of nothing else; making one takes seconds without optimisation.
const RSA_KEY: &str = include_str!("openid_rsa_key.txt");

/// Whom the provider vouches for.
#[derive(Clone, Debug)]
pub struct Person {
    pub subject: &'static str,
    pub email: &'static str,
    pub groups: Vec<&'static str>,
}

/// What signs a token.
#[derive(Clone, Debug)]
pub enum Signing {
    Rsa,
    Ec,
    /// A key that is not the provider's.
    Stranger,
    Nothing,
    Shared(Vec<u8>),
}

/// A token before it is signed.
pub struct Token {
    pub header: Value,
    pub claims: Value,
    pub signing: Signing,
}

impl Token {
    /// Signed by the key on a curve, which has this name.
    pub fn by_curve(&mut self, key: &str) {
        self.header = json!({"alg": "ES256", "kid": key});
        self.signing = Signing::Ec;
    }
}

type Forge = Arc<dyn Fn(&mut Token) + Send + Sync>;

struct Sent {
    nonce: String,
    challenge: String,
    redirect: String,
}

struct State {
    person: Person,
    forge: Forge,
    /// What is answered at a path in place of what should be.
    odd: BTreeMap<&'static str, (u16, String)>,
    /// How long an answer takes.
    delay: Duration,
    /// What the person is asked before; `None`: nothing.
    refusal: Option<&'static str>,
    asks: bool,
    curve_key: (String, EcdsaKeyPair),
    codes: BTreeMap<String, Sent>,
    calls: BTreeMap<String, usize>,
}

/// A provider; it takes no connections any more when it is dropped.
pub struct Provider {
    pub issuer: String,
    /// What vouches for it, in PEM, where it is spoken with by TLS.
    pub authority: Option<String>,
    state: Arc<Mutex<State>>,
}

/// A certificate for this machine, in PEM, and what shows it to whoever connects.
fn certificate() -> (String, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()]).expect("a certificate");
    let der = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(crypto_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .expect("a pair");
    (made.cert.pem(), Arc::new(config))
}

fn curve_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).expect("a key")
}

fn rsa_key() -> RsaKeyPair {
    let der = STANDARD.decode(RSA_KEY.replace('\n', "")).expect("base64");
    RsaKeyPair::from_pkcs8(&der).expect("a key")
}

/// What everybody knows of the key.
pub fn rsa_modulus() -> Vec<u8> {
    PublicKeyComponents::<Vec<u8>>::from(rsa_key().public_key()).n
}

fn text_of(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970, and so many more.
pub fn seconds(later: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    i64::try_from(now).expect("small") + later
}

impl Provider {
    pub fn new(person: Person) -> Self {
        Self::with(person, None)
    }

    /// One that is spoken with by TLS.
    pub fn encrypted(person: Person) -> Self {
        Self::with(person, Some(certificate()))
    }

    fn with(person: Person, certificate: Option<(String, Arc<ServerConfig>)>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let issuer = format!("{scheme}://{}", listener.local_addr().expect("its address"));
        let (authority, tls) = certificate.unzip();
        let state = Arc::new(Mutex::new(State {
            person,
            forge: Arc::new(|_| {}),
            odd: BTreeMap::new(),
            delay: Duration::ZERO,
            refusal: None,
            asks: false,
            curve_key: ("curve-1".to_owned(), curve_key()),
            codes: BTreeMap::new(),
            calls: BTreeMap::new(),
        }));
        let provider = Self { issuer: issuer.clone(), authority, state: Arc::clone(&state) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (issuer, state, tls) = (issuer.clone(), Arc::clone(&state), tls.clone());
                let stream = stream.expect("a connection");
                thread::spawn(move || match tls {
                    Some(tls) => {
                        let session = ServerConnection::new(tls).expect("a session");
                        serve(StreamOwned::new(session, stream), &issuer, &state);
                    }
                    None => serve(stream, &issuer, &state),
                });
            }
        });
        provider
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the state")
    }

    /// Vouches for somebody from now on.
    pub fn vouches_for(&self, person: Person) {
        self.lock().person = person;
    }

    /// Changes each token from now on before it is signed.
    pub fn forges(&self, forge: impl Fn(&mut Token) + Send + Sync + 'static) {
        self.lock().forge = Arc::new(forge);
    }

    /// Answers something else at a path from now on; `None`: what it should.
    pub fn answers(&self, path: &'static str, answer: Option<(u16, &str)>) {
        match answer {
            Some((status, body)) => drop(self.lock().odd.insert(path, (status, body.to_owned()))),
            None => drop(self.lock().odd.remove(path)),
        }
    }

    /// Takes so long for each answer from now on.
    pub fn takes(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// Sends people back with this error from now on.
    pub fn refuses(&self, error: Option<&'static str>) {
        self.lock().refusal = error;
    }

    /// Shows people a page with a link, from now on.
    pub fn asks_people(&self) {
        self.lock().asks = true;
    }

    /// Another key on a curve takes the place of the one there was.
    pub fn changes_key(&self, name: &str) {
        self.lock().curve_key = (name.to_owned(), curve_key());
    }

    /// How often somebody has called at a path.
    pub fn calls(&self, path: &str) -> usize {
        self.lock().calls.get(path).copied().unwrap_or_default()
    }

    /// Goes where a browser is sent, and answers where it is sent back to: path and query.
    pub fn visit(&self, url: &str) -> String {
        let mut config = Agent::config_builder().max_redirects(0).http_status_as_error(false);
        if let Some(authority) = &self.authority {
            let root = Certificate::from_pem(authority.as_bytes()).expect("a certificate");
            let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(crypto_provider()));
            config = config.tls_config(tls.root_certs(RootCerts::from(vec![root])).build());
        }
        let agent: Agent = config.build().into();
        let answer = agent.get(url).call().expect("an answer");
        let to = answer.headers().get("location").expect("a way back").to_str().expect("text").to_owned();
        let rest = to.split_once("://").expect("a URL").1;
        rest[rest.find('/').expect("a path")..].to_owned()
    }
}

struct Request {
    path: String,
    query: Fields,
    authorization: String,
    form: Fields,
}

/// A request; `None`: whoever connected sent none, or does not trust the certificate.
fn read(stream: &mut impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
    head.ends_with("\r\n\r\n").then_some(())?;
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut body).ok()?;
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Request {
        path: path.to_owned(),
        query: Fields::parse(query),
        authorization: header("authorization"),
        form: Fields::parse(&String::from_utf8_lossy(&body)),
    })
}

fn serve(mut stream: impl Read + Write, issuer: &str, state: &Mutex<State>) {
    let Some(request) = read(&mut stream) else { return };
    let delay = state.lock().expect("the state").delay;
    thread::sleep(delay);
    let (status, headers, body) = {
        let mut state = state.lock().expect("the state");
        *state.calls.entry(request.path.clone()).or_default() += 1;
        match state.odd.get(request.path.as_str()) {
            Some((status, body)) => (*status, "content-type: application/json".to_owned(), body.clone()),
            None => state.answer(issuer, &request),
        }
    };
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status} Said\r\n{headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    // Whoever asked may have left.
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).unwrap_or_default();
}

impl State {
    fn answer(&mut self, issuer: &str, request: &Request) -> (u16, String, String) {
        let json = |status, body: Value| (status, "content-type: application/json".to_owned(), body.to_string());
        match request.path.as_str() {
            "/.well-known/openid-configuration" => json(200, description(issuer)),
            "/keys" => json(200, self.keys()),
            "/authorize" => self.authorize(&request.query),
            "/token" => match self.token(issuer, request) {
                Ok(token) => json(
                    200,
                    json!({"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": token}),
                ),
                Err(error) => {
                    json(400, json!({"error": error, "error_description": "a description with the <b>code</b>"}))
                }
            },
            _ => json(404, json!({})),
        }
    }

    fn keys(&self) -> Value {
        let rsa = PublicKeyComponents::<Vec<u8>>::from(rsa_key().public_key());
        let (name, curve) = &self.curve_key;
        let point = curve.public_key().as_ref();
        json!({"keys": [
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rsa-1", "n": text_of(&rsa.n), "e": text_of(&rsa.e)},
            {"kty": "EC", "use": "sig", "crv": "P-256", "kid": name, "x": text_of(&point[1..33]), "y": text_of(&point[33..])},
            {"kty": "of a kind that nobody knows", "kid": "later"},
        ]})
    }

    /// Sends a browser back, once it is clear that it was sent as it should be.
    fn authorize(&mut self, query: &Fields) -> (u16, String, String) {
        let get = |name: &str| query.get(name).unwrap_or_else(|| panic!("no {name}")).to_owned();
        assert_eq!((get("response_type"), get("client_id")), ("code".to_owned(), CLIENT_ID.to_owned()));
        assert_eq!(get("code_challenge_method"), "S256");
        assert_eq!(get("scope"), "openid email profile groups");
        let code = format!("code-{}", self.calls["/authorize"]);
        let (redirect, state) = (get("redirect_uri"), get("state"));
        self.codes.insert(
            code.clone(),
            Sent { nonce: get("nonce"), challenge: get("code_challenge"), redirect: redirect.clone() },
        );
        let back = match self.refusal {
            Some(error) => format!("{redirect}?error={error}&error_description=%3Cb%3Eno&state={state}"),
            None => format!("{redirect}?code={code}&state={state}"),
        };
        if self.asks {
            let page = format!(
                "<!doctype html><title>Provider</title><a id=\"go\" href=\"{}\">Go on</a>",
                back.replace('&', "&amp;")
            );
            return (200, "content-type: text/html".to_owned(), page);
        }
        (302, format!("location: {back}"), String::new())
    }

    fn token(&mut self, issuer: &str, request: &Request) -> Result<String, &'static str> {
        let escaped = |text: &str| billing_console::visit::escaped(text);
        let (known, sent) = request.authorization.split_once(' ').ok_or("invalid_client")?;
        let sent = String::from_utf8(STANDARD.decode(sent).map_err(|_| "invalid_client")?).expect("text");
        let (id, secret) = sent.split_once(':').ok_or("invalid_client")?;
        // Forms and URLs escape a few signs in two ways.
        let is_same = |sent: &str, meant: &str| {
            Fields::parse(&format!("a={sent}")).get("a") == Fields::parse(&format!("a={}", escaped(meant))).get("a")
        };
        if known != "Basic" || !is_same(id, CLIENT_ID) || !is_same(secret, CLIENT_SECRET) {
            return Err("invalid_client");
        }
        let code = request.form.get("code").unwrap_or_default();
        let sent = self.codes.remove(code).ok_or("invalid_grant")?;
        let verifier = request.form.get("code_verifier").unwrap_or_default();
        let is_theirs = text_of(&Sha256::digest(verifier.as_bytes())) == sent.challenge;
        if !is_theirs || request.form.get("redirect_uri") != Some(sent.redirect.as_str()) {
            return Err("invalid_grant");
        }
        let person = &self.person;
        let mut token = Token {
            header: json!({"alg": "RS256", "typ": "JWT", "kid": "rsa-1"}),
            claims: json!({
                "iss": issuer, "sub": person.subject, "aud": CLIENT_ID, "nonce": sent.nonce, "iat": seconds(0),
                "exp": seconds(300), "email": person.email, "groups": person.groups, "acr": "1", "at_hash": "x",
            }),
            signing: Signing::Rsa,
        };
        (self.forge)(&mut token);
        Ok(self.signed(&token))
    }

    fn signed(&self, token: &Token) -> String {
        let said = [&token.header, &token.claims].map(|part| text_of(part.to_string().as_bytes())).join(".");
        let random = SystemRandom::new();
        let signature = match &token.signing {
            Signing::Rsa => {
                let key = rsa_key();
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, said.as_bytes(), &mut signature).expect("signed");
                signature
            }
            Signing::Ec => self.curve_key.1.sign(&random, said.as_bytes()).expect("signed").as_ref().to_vec(),
            Signing::Stranger => curve_key().sign(&random, said.as_bytes()).expect("signed").as_ref().to_vec(),
            Signing::Nothing => Vec::new(),
            Signing::Shared(secret) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
                mac.update(said.as_bytes());
                mac.finalize().into_bytes().to_vec()
            }
        };
        format!("{said}.{}", text_of(&signature))
    }
}

fn description(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
        "scopes_supported": ["openid", "email", "profile", "groups"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    })
}
