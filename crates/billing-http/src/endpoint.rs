//! One row of the route table: how a call is routed, and how it is described.

use actix_web::body::BoxBody;
use actix_web::dev::ServiceRequest;
use actix_web::guard::{Guard, fn_guard};
use actix_web::http::Method;
use actix_web::middleware::{Next, from_fn};
use actix_web::{FromRequest, Handler, Responder, Route, web};
use billing_domain::api_key::KeyScope;
use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;

use crate::auth::{Needs, authenticate, carry, recognize};
use crate::caller::Terms;
use crate::error::{ApiError, codes};
use crate::idempotency::once;
use crate::noted_call::About;
use crate::unknown_field::{Known, UnknownFields, hold};
use crate::unread::refuse;
use crate::wire::{Describe, Described};
use crate::{needed_scope, operation_id};

pub use crate::query::Parameter;

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// Whoever has a key.
    Key,
}

/// Which part of a list is wanted.
const PAGING: &[Parameter] = &[
    Parameter::optional("limit", "At most so many, 1,000 when missing."),
    Parameter::optional("cursor", "Where the list goes on, as a `Link` header says."),
];

/// One call.
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path with its final slash; it is also answered without.
    pub path: &'static str,
    /// What the call does, in a few words.
    pub summary: &'static str,
    /// Who may call.
    pub access: Access,
    /// Whether the key is looked at by what its handler asks of the store.
    is_for_bearers: bool,
    /// Its query parameters, but for those of all lists.
    pub parameters: &'static [Parameter],
    /// Whether its answer is a list that can be asked for in parts.
    is_paged: bool,
    /// Whether it is there for existing clients only, and another one does the same better.
    pub is_deprecated: bool,
    /// What its body is.
    pub request: Option<Describe>,
    /// What else its body may be, by media type.
    pub request_forms: Vec<(&'static str, Describe)>,
    /// What it answers when all is well.
    pub answer: Option<(u16, Describe)>,
    /// Whether it takes an `Idempotency-Key`.
    pub takes_key: bool,
    /// Whether the audit log tells of it, where it may change something.
    is_noted: bool,
    /// The field of its answer that is shown once and kept nowhere.
    pub secret: Option<&'static str>,
    /// The media type of that answer.
    pub media_type: &'static str,
    /// A refusal that is no problem document.
    pub refusal: Option<(u16, Describe)>,
    /// Whether it may have to wait for a second person.
    pub may_wait: bool,
    /// Whether a GET of its path is for the path with a name in its place.
    leaves_get: bool,
    /// Makes its route, which is needed once for each spelling of its path.
    route: Box<dyn Fn() -> Route>,
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {
        $(
            #[doc = concat!("A ", stringify!($method), " call that needs a key.")]
            pub fn $name<F, Args>(path: &'static str, summary: &'static str, handler: F) -> Endpoint
            where
                F: Handler<Args>,
                Args: FromRequest + 'static,
                F::Output: Responder + 'static,
            {
                Endpoint {
                    method: Method::$method,
                    path,
                    summary,
                    access: Access::Key,
                    is_for_bearers: false,
                    parameters: &[],
                    is_paged: false,
                    is_deprecated: false,
                    request: None,
                    request_forms: Vec::new(),
                    answer: None,
                    takes_key: Method::$method == Method::POST,
                    is_noted: Method::$method != Method::GET,
                    secret: None,
                    media_type: "application/json",
                    refusal: None,
                    may_wait: false,
                    leaves_get: false,
                    route: Box::new(move || web::route().guard(guarded(Method::$method)).to(handler.clone())),
                }
            }
        )*
    };
}

/// Which requests a call of `method` answers: one that shows something also those that ask for its head alone.
fn guarded(method: Method) -> impl Guard {
    let head = (method == Method::GET).then_some(Method::HEAD);
    fn_guard(move |context| {
        let asked = &context.head().method;
        *asked == method || head.as_ref() == Some(asked)
    })
}

methods! { get GET post POST patch PATCH delete DELETE }

impl Endpoint {
    /// Makes it callable by anybody.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// Leaves the look at the key to what its handler asks of the store, a handler for a [`Bearer`](crate::caller::Bearer).
    #[must_use]
    pub fn for_bearers(mut self) -> Self {
        self.is_for_bearers = true;
        self
    }

    /// Its query parameters.
    #[must_use]
    pub fn parameters(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// The type of its body.
    #[must_use]
    pub fn takes<T: Described>(mut self) -> Self {
        self.request = Some(T::describe);
        self
    }

    /// The type of its body where that comes as this media type, beside the usual one.
    #[must_use]
    pub fn takes_as<T: Described>(mut self, media_type: &'static str) -> Self {
        self.request_forms.push((media_type, T::describe));
        self
    }

    /// The status and type of its answer.
    #[must_use]
    pub fn answers<T: Described>(mut self, status: u16) -> Self {
        self.answer = Some((status, T::describe));
        self
    }

    /// That it answers a list, which can be asked for in parts.
    #[must_use]
    pub fn lists<T: Described>(mut self) -> Self {
        self.is_paged = true;
        self.answers::<Vec<T>>(200)
    }

    /// Whether its answer is a list that can be asked for in parts.
    pub fn is_paged(&self) -> bool {
        self.is_paged
    }

    /// That it is there for existing clients only, and another one does the same better.
    #[must_use]
    pub fn deprecated(mut self) -> Self {
        self.is_deprecated = true;
        self
    }

    /// All its query parameters.
    pub fn query_parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.parameters.iter().chain(if self.is_paged { PAGING } else { &[] })
    }

    /// What it makes of fields and parameters that it does not know.
    pub fn unknown_fields(&self) -> UnknownFields {
        UnknownFields::of_call(&self.method, self.path, self.access == Access::Public)
    }

    /// Leaves a GET of its path to the path that has a name where this one has a word: the word may be somebody's id.
    #[must_use]
    pub fn leaves_get(mut self) -> Self {
        self.leaves_get = true;
        self
    }

    /// Takes no `Idempotency-Key`: it can be repeated as it is.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.takes_key = false;
        self
    }

    /// The field of its answer that is shown this once.
    #[must_use]
    pub fn reveals(mut self, field: &'static str) -> Self {
        self.secret = Some(field);
        self
    }

    /// Leaves it out of the audit log, so that nothing is made ready for an entry: what it takes in tells of itself, as events do.
    #[must_use]
    pub fn unnoted(mut self) -> Self {
        self.is_noted = false;
        self
    }

    /// Its route, by which what it does not know is refused or named, and a request with an `Idempotency-Key` is worked on once.
    fn route(&self) -> Route {
        let parameters = self.query_parameters().collect();
        let known = Known::new(self.unknown_fields(), &self.method, parameters, self.request);
        let known = Arc::new(known);
        let hold = from_fn(move |request: ServiceRequest, next: Next<BoxBody>| hold(known.clone(), request, next));
        let route = (self.route)();
        // Told last of all, right before the handler: what is refused before it has nothing to tell.
        let route = match self.is_noted {
            false => route,
            true => {
                let about = Arc::new(About::of(self.operation_id(), self.path, self.secret));
                let may_wait = self.may_wait;
                route.wrap(from_fn(move |request: ServiceRequest, next: Next<BoxBody>| {
                    carry((about.clone(), may_wait), request, next)
                }))
            }
        };
        let Some((status, _)) = self.answer.filter(|_| self.takes_key) else { return route.wrap(hold) };
        let terms = Terms { status, secret: self.secret };
        let once = from_fn(move |request: ServiceRequest, next: Next<BoxBody>| once(terms, request, next));
        // What is unknown is looked at first: whatever is answered again, was answered before.
        route.wrap(once).wrap(hold)
    }

    /// The status and type of a refusal that is no problem document.
    #[must_use]
    pub fn refuses<T: Described>(mut self, status: u16) -> Self {
        self.refusal = Some((status, T::describe));
        self
    }

    /// That it may have to wait for a second person, and then answers 202 with the request that was made of it.
    #[must_use]
    pub fn may_wait(mut self) -> Self {
        self.may_wait = true;
        self
    }

    /// That it answers a text of this media type.
    #[must_use]
    pub fn answers_text(mut self, media_type: &'static str) -> Self {
        self.media_type = media_type;
        self.answers::<String>(200)
    }

    /// The scope that a key must have for it; `None`: any.
    pub fn needed_scope(&self) -> Option<KeyScope> {
        needed_scope::of(&self.method, self.path).filter(|_| self.access == Access::Key)
    }

    /// What it is named in generated clients, and in the audit log.
    pub fn operation_id(&self) -> String {
        operation_id::of(&self.method, self.path, self.is_paged)
    }

    fn has_names(&self) -> bool {
        self.path.contains('{')
    }

    /// The names in braces in its path.
    pub fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }
}

/// Which row of the table a request was for, found among the data of the request: asking actix again would go through
/// all routes again.
#[derive(Clone, Copy, Debug)]
pub struct Matched(pub &'static str);

/// Routes the calls of a table.
pub fn configure(config: &mut web::ServiceConfig, mut table: Vec<Endpoint>) {
    // The first path that fits is taken. Paths without names in braces come first, because they are compared and not
    // matched, which is a hundred times cheaper, and of them those for bearers, which are called all day, before all others; among
    // those with names a word comes before what stands for any, because `{` sorts behind every letter.
    let often: BTreeSet<&str> = table.iter().filter(|endpoint| endpoint.is_for_bearers).map(|one| one.path).collect();
    table.sort_by_key(|endpoint| {
        let is_matched = endpoint.has_names();
        (is_matched, !is_matched && !often.contains(endpoint.path), endpoint.path)
    });
    let mut endpoints = table.into_iter().peekable();
    while let Some(first) = endpoints.next() {
        let path = first.path;
        let mut same_path = vec![first];
        while let Some(next) = endpoints.next_if(|next| next.path == path) {
            same_path.push(next);
        }
        register(config, path, &same_path);
        let without_slash = path.trim_end_matches('/');
        if !without_slash.is_empty() && without_slash != path {
            register(config, without_slash, &same_path);
        }
    }
    config.default_service(|request: ServiceRequest| {
        let error = ApiError::new(&codes::NOT_FOUND, "There is nothing at this path.");
        ready(Ok(refuse(request, &error)))
    });
}

/// Routes the calls of one path, which is spelled like `pattern`.
fn register(config: &mut web::ServiceConfig, pattern: &'static str, endpoints: &[Endpoint]) {
    let Some(first) = endpoints.first() else { return };
    let spelled = |method: &Method| if *method == Method::GET { "GET, HEAD".to_owned() } else { method.to_string() };
    let methods: Vec<_> = endpoints.iter().map(|endpoint| spelled(&endpoint.method)).collect();
    let allow = methods.join(", ");
    let resource = web::resource(pattern).app_data(Matched(first.path));
    let resource = endpoints.iter().fold(resource, |resource, endpoint| resource.route(endpoint.route()));
    let resource = resource.default_service(move |request: ServiceRequest| {
        let error = ApiError::plain(&codes::METHOD_NOT_ALLOWED).allowing(allow.clone());
        ready(Ok(refuse(request, &error)))
    });
    let resource = match endpoints.iter().any(|endpoint| endpoint.leaves_get) {
        true => resource.guard(fn_guard(|context| !guarded(Method::GET).check(context))),
        false => resource,
    };
    let needs = Needs::of(endpoints.iter().map(|endpoint| (endpoint.method.clone(), endpoint.needed_scope())));
    let recognize = {
        let needs = needs.clone();
        move |request: ServiceRequest, next: Next<BoxBody>| recognize(needs.clone(), request, next)
    };
    let authenticate = move |request: ServiceRequest, next: Next<BoxBody>| authenticate(needs.clone(), request, next);
    match first.access {
        Access::Public => config.service(resource),
        Access::Key if first.is_for_bearers => config.service(resource.wrap(from_fn(recognize))),
        Access::Key => config.service(resource.wrap(from_fn(authenticate))),
    };
}
