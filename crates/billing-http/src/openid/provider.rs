//! The conversation with the provider, and what is remembered of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use billing_domain::user::Identity;
use billing_outbound::{Client as Outbound, Reach, SystemLookup};
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse,
    CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthType, AuthorizationCode, ClaimsVerificationError, Client, ClientId, ClientSecret, CsrfToken,
    DiscoveryError, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenClaims, IdTokenFields,
    IssuerUrl, Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    SignatureVerificationError, StandardErrorResponse, StandardTokenResponse, TokenResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::{CallFailure, Calls, destination};
use super::secrets::Secrets;
use super::settings::OpenIdSettings;

/// How long what the provider says of itself is believed.
const METADATA_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// How far clocks may be apart.
const SKEW: TimeDelta = TimeDelta::seconds(60);
/// How old a token may be that was just asked for, beside that.
const TOKEN_AGE_MAX: TimeDelta = TimeDelta::minutes(10);
/// Most groups that are looked at.
const GROUPS_MAX: usize = 2_000;
/// Conversations at once: each holds a thread.
const TURNS: usize = 4;

/// Claims that the specification does not name, groups among them.
#[derive(Debug, Deserialize, Serialize)]
struct OtherClaims {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

type Fields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type OpenIdClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<Fields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Somebody, as the provider says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Names it for ever.
    pub identity: Identity,
    /// Its address, which names nobody.
    pub email: Option<String>,
    /// Whether the provider says that the address is not known to be theirs.
    pub is_email_unverified: bool,
    /// The groups that it is in.
    pub groups: Vec<String>,
}

/// Why the provider has said nothing that counts. The texts are for the log: they have no secret in them, and nothing that the provider
/// wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderFailure {
    /// It does not answer.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// It answers something else.
    #[error("the provider's answer cannot be read: {0}")]
    BadAnswer(&'static str),
    /// It takes no such code, or does not know this service.
    #[error("the provider does not take the code or the client: {0}")]
    Refused(&'static str),
    /// Its token proves nothing.
    #[error("the provider's token is not good: {0}")]
    BadToken(&'static str),
}

/// What the provider has said of itself.
#[derive(Clone)]
struct Known {
    metadata: CoreProviderMetadata,
    found_at: Instant,
    keys_asked_at: Instant,
}

/// The provider that is set.
pub struct Provider {
    settings: OpenIdSettings,
    outbound: Outbound,
    known: Mutex<Option<Known>>,
    /// Conversations that may be had at once.
    pub turns: Arc<tokio::sync::Semaphore>,
}

impl Provider {
    /// The provider of the settings. It is not asked for anything yet: it may come later than this service.
    pub fn new(settings: OpenIdSettings) -> Self {
        let outbound = match settings.authorities.clone() {
            Some(authorities) => Outbound::with(Reach::Anywhere, Arc::new(SystemLookup), authorities),
            None => Outbound::new(Reach::Anywhere),
        };
        let turns = Arc::new(tokio::sync::Semaphore::new(TURNS));
        Self { settings, outbound, known: Mutex::default(), turns }
    }

    /// What is set of it.
    pub fn settings(&self) -> &OpenIdSettings {
        &self.settings
    }

    /// Where a browser is sent with these secrets.
    ///
    /// # Errors
    /// When the provider does not say.
    pub fn authorization_url(&self, secrets: &Secrets) -> Result<String, ProviderFailure> {
        let metadata = self.metadata(&self.calls())?.metadata;
        let client = self.client(metadata.clone())?;
        let (state, nonce) = (secrets.state.clone(), secrets.nonce.clone());
        let verifier = PkceCodeVerifier::new(secrets.verifier.clone());
        let scopes = ["email", "profile"].into_iter().map(str::to_owned).chain(self.groups_scope(&metadata));
        let (url, _, _) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                move || CsrfToken::new(state),
                move || Nonce::new(nonce),
            )
            .add_scopes(scopes.map(Scope::new))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        let url = url.to_string();
        match destination(&url, self.settings.is_plain()) {
            Some(_) => Ok(url),
            None => Err(ProviderFailure::BadAnswer("people cannot be sent to its authorization endpoint")),
        }
    }

    /// Whoever came back with this code, sent with these secrets.
    ///
    /// # Errors
    /// When the provider does not say, or not in a way that proves it.
    pub fn identify(&self, code: &str, secrets: &Secrets) -> Result<Account, ProviderFailure> {
        let calls = self.calls();
        let known = self.metadata(&calls)?;
        let client = self.client(known.metadata.clone())?;
        let exchange = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|_| ProviderFailure::BadAnswer("it has no token endpoint"))?
            .set_pkce_verifier(PkceCodeVerifier::new(secrets.verifier.clone()));
        let tokens = exchange.request(&calls).map_err(|error| exchange_failure(&error))?;
        let token = tokens.id_token().ok_or(ProviderFailure::BadAnswer("there is no ID token"))?;
        let nonce = Nonce::new(secrets.nonce.clone());
        let claims = match token.claims(&verifier(&client), &nonce) {
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) => {
                let client = self.client(self.with_new_keys(known, &calls)?)?;
                token.claims(&verifier(&client), &nonce)
            }
            claims => claims,
        };
        self.account(claims.map_err(|error| ProviderFailure::BadToken(fault(&error)))?)
    }

    fn calls(&self) -> Calls<'_> {
        Calls::within(&self.outbound, self.settings.is_plain(), self.settings.patience)
    }

    fn account(&self, claims: &IdTokenClaims<OtherClaims, CoreGenderClaim>) -> Result<Account, ProviderFailure> {
        if claims.authorized_party().is_some_and(|party| party.as_str() != self.settings.client_id) {
            return Err(ProviderFailure::BadToken("it was issued to another client"));
        }
        let subject = claims.subject().as_str().to_owned();
        if subject.is_empty() || subject.chars().count() > Identity::SUBJECT_CHARACTERS_MAX {
            return Err(ProviderFailure::BadToken("its subject is empty or too long"));
        }
        let groups = match claims.additional_claims().all.get(&self.settings.groups_claim) {
            Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(group)) => vec![group.clone()],
            _ => Vec::new(),
        };
        if groups.len() > GROUPS_MAX {
            return Err(ProviderFailure::BadToken("it has too many groups"));
        }
        Ok(Account {
            identity: Identity { issuer: self.settings.issuer.clone(), subject },
            email: claims.email().map(|email| email.as_str().to_owned()),
            is_email_unverified: claims.email_verified() == Some(false),
            groups,
        })
    }

    /// The scope that brings groups, where the provider has one of the claim's name; some have none, and refuse it.
    fn groups_scope(&self, metadata: &CoreProviderMetadata) -> Option<String> {
        let claim = &self.settings.groups_claim;
        let mut scopes = metadata.scopes_supported().into_iter().flatten();
        scopes.any(|scope| scope.as_str() == claim).then(|| claim.clone())
    }

    fn client(&self, metadata: CoreProviderMetadata) -> Result<OpenIdClient, ProviderFailure> {
        let methods = metadata.token_endpoint_auth_methods_supported();
        let has = |method| methods.is_none_or(|methods| methods.contains(&method));
        let by_body = !has(CoreClientAuthMethod::ClientSecretBasic) && has(CoreClientAuthMethod::ClientSecretPost);
        let redirect = RedirectUrl::new(self.settings.redirect_url.clone());
        let redirect = redirect.map_err(|_| ProviderFailure::BadAnswer("nobody can be sent back"))?;
        let (id, secret) = (self.settings.client_id.clone(), self.settings.client_secret.clone());
        let client = OpenIdClient::from_provider_metadata(metadata, ClientId::new(id), Some(ClientSecret::new(secret)));
        let client = client.set_redirect_uri(redirect);
        Ok(if by_body { client.set_auth_type(AuthType::RequestBody) } else { client })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the provider says of itself, asked for once an hour.
    fn metadata(&self, calls: &Calls<'_>) -> Result<Known, ProviderFailure> {
        if let Some(known) = self.lock().as_ref().filter(|known| known.found_at.elapsed() < METADATA_AGE_MAX) {
            return Ok(known.clone());
        }
        let issuer = IssuerUrl::new(self.settings.issuer.clone());
        let issuer = issuer.map_err(|_| ProviderFailure::BadAnswer("the issuer is no URL"))?;
        let metadata = CoreProviderMetadata::discover(&issuer, calls).map_err(|error| discovery_failure(&error))?;
        let now = Instant::now();
        let known = Known { metadata, found_at: now, keys_asked_at: now };
        *self.lock() = Some(known.clone());
        Ok(known)
    }

    /// The same with the keys that the provider has now, unless they were just asked for.
    fn with_new_keys(&self, known: Known, calls: &Calls<'_>) -> Result<CoreProviderMetadata, ProviderFailure> {
        if let Some(kept) = self.lock().as_mut() {
            if kept.keys_asked_at != known.keys_asked_at {
                // Somebody else has asked meanwhile.
                return Ok(kept.metadata.clone());
            }
            if kept.keys_asked_at.elapsed() < self.settings.keys_rest {
                return Err(ProviderFailure::BadToken("its key is unknown, and keys were asked for a moment ago"));
            }
            // Before they are asked for: whatever comes of it, nobody asks again at once.
            kept.keys_asked_at = Instant::now();
        }
        let keys = CoreJsonWebKeySet::fetch(known.metadata.jwks_uri(), calls);
        let metadata = known.metadata.set_jwks(keys.map_err(|error| discovery_failure(&error))?);
        if let Some(kept) = self.lock().as_mut() {
            kept.metadata = metadata.clone();
        }
        Ok(metadata)
    }
}

/// What looks at a token: signed by a key of the provider's and in no other way, for this service, now, by our clock give or take.
fn verifier(client: &OpenIdClient) -> openidconnect::IdTokenVerifier<'_, CoreJsonWebKey> {
    let algorithms = [CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256, CoreJwsSigningAlgorithm::EcdsaP256Sha256];
    client
        .id_token_verifier()
        .set_allowed_algs(algorithms)
        .set_time_fn(|| DateTime::<Utc>::from(SystemTime::now()) - SKEW)
        .set_issue_time_verifier_fn(|issued_at| {
            let age = DateTime::<Utc>::from(SystemTime::now()) - issued_at;
            if age < -SKEW || age > TOKEN_AGE_MAX + SKEW { Err("issued at another time".to_owned()) } else { Ok(()) }
        })
}

/// What is wrong with a token, in words of ours: those of the library quote it.
fn fault(error: &ClaimsVerificationError) -> &'static str {
    match error {
        ClaimsVerificationError::Expired(_) => "it has expired",
        ClaimsVerificationError::InvalidAudience(_) => "it is for another audience",
        ClaimsVerificationError::InvalidIssuer(_) => "it is of another issuer",
        ClaimsVerificationError::InvalidNonce(_) => "its nonce is another one",
        ClaimsVerificationError::SignatureVerification(error) => match error {
            SignatureVerificationError::NoMatchingKey => "its key is unknown",
            SignatureVerificationError::NoSignature => "it is not signed",
            SignatureVerificationError::DisallowedAlg(_) | SignatureVerificationError::UnsupportedAlg(_) => {
                "it is signed by an algorithm that is not taken"
            }
            _ => "its signature is wrong",
        },
        _ => "it was issued at another time, or is odd in another way",
    }
}

fn call_failure(error: &CallFailure) -> ProviderFailure {
    match error {
        CallFailure::Failed(failure) => ProviderFailure::Unreachable(failure.to_string()),
        CallFailure::TooLong => ProviderFailure::BadAnswer("it is too long"),
        CallFailure::BadUrl => ProviderFailure::BadAnswer("an endpoint is neither encrypted nor on this machine"),
        CallFailure::BadHeader | CallFailure::BadAnswer => ProviderFailure::BadAnswer("it is no HTTP"),
    }
}

fn discovery_failure(error: &DiscoveryError<CallFailure>) -> ProviderFailure {
    match error {
        DiscoveryError::Request(error) => call_failure(error),
        DiscoveryError::Response(..) => ProviderFailure::BadAnswer("its description or its keys are not there"),
        DiscoveryError::Validation(_) => ProviderFailure::BadAnswer("it describes another issuer"),
        _ => ProviderFailure::BadAnswer("its description or its keys are not what they should be"),
    }
}

fn exchange_failure(
    error: &RequestTokenError<CallFailure, StandardErrorResponse<CoreErrorResponseType>>,
) -> ProviderFailure {
    match error {
        RequestTokenError::Request(error) => call_failure(error),
        RequestTokenError::ServerResponse(told) => ProviderFailure::Refused(match told.error() {
            CoreErrorResponseType::InvalidGrant => "invalid_grant",
            CoreErrorResponseType::InvalidClient => "invalid_client",
            CoreErrorResponseType::UnauthorizedClient => "unauthorized_client",
            _ => "for another reason",
        }),
        _ => ProviderFailure::BadAnswer("what the code was exchanged for is no token"),
    }
}
