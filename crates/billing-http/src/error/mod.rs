//! Errors as answers: RFC 9457 problem documents, one shape for every failure.

pub mod codes;

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use billing_domain::idempotency::Answer;
use billing_domain::{Error, FieldCode, FieldError, FieldErrors, HeldAmount, Refusal, StoreError, TaxNeed};

use crate::request_id;
use crate::wire::view;
use codes::Code;

/// The media type of an error answer.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// How a request that is refused with 401 says who sends it.
pub const CHALLENGE: &str = "ApiKey header=\"X-API-KEY\", Token";
/// Most faults listed in one answer.
const VALIDATION_ERRORS_MAX: usize = 50;
/// Seconds after which a client may try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Why a request was not answered as asked.
#[derive(Debug)]
pub struct ApiError {
    title: &'static str,
    status: u16,
    detail: String,
    faults: Vec<FieldError>,
    /// For the log only: it may name what no client should read.
    cause: Option<Box<str>>,
    /// The methods of the path, for [`codes::METHOD_NOT_ALLOWED`].
    allow: Option<Box<str>>,
    /// Whether the same request, sent again, is answered the same.
    is_final: bool,
    /// What is to come before the same can be done.
    awaits: Option<Box<Awaited>>,
}

/// What is to come before a call can be done.
#[derive(Debug)]
enum Awaited {
    /// A tax rate, which is to be asked for.
    TaxRate(TaxNeed),
    /// A second person, who has to approve so much.
    SecondPerson(HeldAmount),
    /// A second person, who was asked: the answer, which is the request.
    Decision(String),
}

/// The status of the answer to a call that waits for a second person.
pub const WAITING_STATUS: u16 = 202;

impl ApiError {
    /// An error that is not about a field.
    pub fn new(code: &'static Code, detail: impl Into<String>) -> Self {
        Self {
            title: code.text,
            status: code.status,
            detail: detail.into(),
            faults: Vec::new(),
            cause: None,
            allow: None,
            is_final: false,
            awaits: None,
        }
    }

    /// What a call comes to that waits for a second person, instead of its answer: nothing was done, and this is the request.
    pub fn waiting(request: String) -> Self {
        let plain = Self::plain(&codes::SECOND_PERSON_NEEDED);
        Self { status: WAITING_STATUS, awaits: Some(Box::new(Awaited::Decision(request))), ..plain }
    }

    /// An error that says of itself only what the table says.
    pub fn plain(code: &'static Code) -> Self {
        Self::new(code, code.meaning)
    }

    /// A fault of ours: the client learns nothing but that it was one.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self { cause: Some(cause.to_string().into()), ..Self::plain(&codes::INTERNAL_ERROR) }
    }

    /// One bad field.
    pub fn field(attr: &str, code: FieldCode, detail: impl Into<String>) -> Self {
        FieldError::new(attr, code, detail).into()
    }

    /// The same failure under a code that says more of it.
    #[must_use]
    pub fn renamed(self, code: &'static Code) -> Self {
        Self { cause: self.cause, ..Self::plain(code) }
    }

    /// The methods that the path has.
    #[must_use]
    pub fn allowing(mut self, methods: String) -> Self {
        self.allow = Some(methods.into());
        self
    }

    /// The code that clients branch on.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What is wrong with which field; empty when the error is not about fields.
    pub fn faults(&self) -> &[FieldError] {
        &self.faults
    }

    /// Whether a rule has decided: the same request, sent again, is answered the same.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// What the request `request_id` is told, to the byte.
    pub fn answer(&self, request_id: &str) -> Answer {
        let problem = ProblemView {
            r#type: format!("/docs/errors#{}", self.title),
            title: self.title.to_owned(),
            detail: self.detail.clone(),
            status: self.status,
            request_id: request_id.to_owned(),
            validation_errors: self.faults.iter().map(FaultView::from).collect(),
        };
        Answer { status: self.status, text: serde_json::to_string(&problem).unwrap_or_default() }
    }

    /// The tax rate that is to be asked for before the same can be done.
    pub fn tax_need(&self) -> Option<&TaxNeed> {
        match self.awaits.as_deref() {
            Some(Awaited::TaxRate(need)) => Some(need),
            _ => None,
        }
    }

    /// What a second person has to approve before the same can be done.
    pub fn held(&self) -> Option<&HeldAmount> {
        match self.awaits.as_deref() {
            Some(Awaited::SecondPerson(held)) => Some(held),
            _ => None,
        }
    }

    fn is_retryable(&self) -> bool {
        let retryable = [&codes::CONFLICT_RETRY, &codes::IDEMPOTENCY_KEY_IN_USE];
        matches!(self.status, 429 | 503) || retryable.iter().any(|code| self.title == code.text)
    }
}

/// The code of an error answer, kept with the answer for who logs and counts it.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode(pub &'static str);

impl From<FieldErrors> for ApiError {
    fn from(FieldErrors(mut faults): FieldErrors) -> Self {
        faults.truncate(VALIDATION_ERRORS_MAX);
        let (title, detail) = match faults.first() {
            Some(first) => (first.code.as_str(), first.detail.clone()),
            None => (FieldCode::Invalid.as_str(), "The input is not valid.".to_owned()),
        };
        Self {
            title,
            status: codes::FIELD_STATUS,
            detail,
            faults,
            cause: None,
            allow: None,
            is_final: false,
            awaits: None,
        }
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        FieldErrors(vec![error]).into()
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let is_final = error.is_final();
        match error {
            Error::Fields(errors) => errors.into(),
            Error::Refused(Refusal::NeedsApproval(held)) => {
                let refusal = Refusal::NeedsApproval(held.clone());
                Self {
                    awaits: Some(Box::new(Awaited::SecondPerson(*held))),
                    ..Self::new(codes::of_refusal(&refusal), refusal.to_string())
                }
            }
            Error::Refused(refusal) => Self { is_final, ..Self::new(codes::of_refusal(&refusal), refusal.to_string()) },
            Error::TaxRate(need) => Self {
                awaits: Some(Box::new(Awaited::TaxRate(need.clone()))),
                ..Self::new(&codes::TAX_RATE_UNAVAILABLE, format!("{need}."))
            },
            Error::NotFound(noun) => Self { is_final, ..Self::new(codes::of_absent(noun), format!("No such {noun}.")) },
            // No fault, and in a flood there are too many of them for the log.
            Error::Store(StoreError::Overloaded) => Self::plain(&codes::TOO_MANY_IN_FLIGHT),
            Error::Store(error) => {
                let code = codes::of_store_error(&error);
                Self { cause: Some(error.to_string().into()), ..Self::plain(code) }
            }
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.title, self.detail)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let request_id = request_id::current();
        if let Some(Awaited::Decision(request)) = self.awaits.as_deref() {
            let mut response = HttpResponse::build(self.status_code());
            return response.content_type("application/json").body(request.clone());
        }
        if let Some(cause) = &self.cause {
            log::error!(code = self.title, cause:% = cause; "a call failed");
        }
        let Answer { text, .. } = self.answer(&request_id);
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((CONTENT_TYPE, PROBLEM_JSON)).insert_header((request_id::HEADER, request_id));
        match self.status {
            401 => {
                response.insert_header((WWW_AUTHENTICATE, CHALLENGE));
            }
            // What was not read of the body is in the way of the next request.
            408 | 413 => {
                response.force_close();
            }
            _ => {}
        }
        if let Some(methods) = &self.allow {
            response.insert_header((ALLOW, methods.as_ref()));
        }
        if self.is_retryable() {
            response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
        }
        let mut answer = response.body(text);
        answer.extensions_mut().insert(ErrorCode(self.title));
        answer
    }
}

view! {
    /// An error.
    ProblemView {
        /// Where the code is explained.
        r#type: String,
        /// The code: stable text to branch on.
        title: String,
        /// What is wrong, for people.
        detail: String,
        /// The HTTP status.
        status: u16,
        /// Names this request in the service's log.
        request_id: String,
        /// Every bad field; empty when the error is not about fields.
        validation_errors: Vec<FaultView>,
    }
}

view! {
    /// What is wrong with one field.
    FaultView {
        /// The code.
        code: String,
        /// What is wrong, for people.
        detail: String,
        /// Dotted path of the field, list positions as numbers; `non_field_errors` for the input as a whole.
        attr: String,
    }
}

impl From<&FieldError> for FaultView {
    fn from(error: &FieldError) -> Self {
        let attr = if error.attr.is_empty() { "non_field_errors" } else { &error.attr };
        Self { code: error.code.as_str().to_owned(), detail: error.detail.clone(), attr: attr.to_owned() }
    }
}
