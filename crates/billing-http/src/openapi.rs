//! The OpenAPI 3.1 document, made from the route table and the types in it.

pub mod calls;
mod finish;
mod webhooks;

use std::sync::OnceLock;

use actix_web::http::Method;
use actix_web::http::header::ContentType;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Deprecated, InfoBuilder, OpenApiBuilder, Required, ResponseBuilder,
};

use crate::approval_view::ApprovalView;
use crate::docs;
use crate::endpoint::{Access, Endpoint, Parameter};
use crate::error::{ApiError, PROBLEM_JSON, ProblemView, WAITING_STATUS};
use crate::query::Query;
use crate::wire::{DecimalForm, Described, Direction, Schema, Schemas};
pub use webhooks::{Webhook, Webhooks};

const SCHEME: &str = "api_key";
/// The parameters of [`show`].
pub const PARAMETERS: &[Parameter] = &[Parameter::optional(
    "numbers",
    "`text` describes the answers to requests with `Accept: application/json; numbers=text`, whose decimals are text; \
     `number` the usual ones.",
)];
const LIST_MEANING: &str = "A bare list of at most 1,000; where it goes on, a `Link` header says.";
const LINK_MEANING: &str = "`<address>; rel=\"next\"`: where the list goes on. Not there at its end.";

/// The description of all calls, in each form of numbers made when it is first asked for.
pub struct Description {
    table: fn() -> Vec<Endpoint>,
    webhooks: fn() -> Webhooks,
    with_numbers: OnceLock<Bytes>,
    with_text: OnceLock<Bytes>,
}

impl Description {
    /// Of the calls of a table, and of messages.
    pub fn new(table: fn() -> Vec<Endpoint>, webhooks: fn() -> Webhooks) -> Self {
        Self { table, webhooks, with_numbers: OnceLock::new(), with_text: OnceLock::new() }
    }

    /// The document as it is sent: whoever asks again gets the same bytes.
    fn document(&self, form: DecimalForm) -> Bytes {
        let made = match form {
            DecimalForm::Number => &self.with_numbers,
            DecimalForm::Text => &self.with_text,
        };
        made.get_or_init(|| document(&(self.table)(), &(self.webhooks)(), form).to_string().into()).clone()
    }
}

/// `GET /openapi.json`
///
/// # Errors
/// A form of numbers that there is not.
pub async fn show(request: HttpRequest, description: web::Data<Description>) -> Result<HttpResponse, ApiError> {
    let mut query = Query::parse(request.query_string())?;
    let form = query.optional::<DecimalForm>("numbers");
    let form = query.finish(form)?.unwrap_or(DecimalForm::Number);
    Ok(HttpResponse::Ok().content_type(ContentType::json()).body(description.document(form)))
}

/// The document that describes a table of calls, with the decimals of answers in one form, and the messages that webhook endpoints
/// get: those have JSON numbers, so they stand in the description of that form.
pub fn document(table: &[Endpoint], webhooks: &Webhooks, form: DecimalForm) -> Value {
    let mut schemas = Schemas::default();
    schemas.set_direction(Direction::Out(form));
    let problem = ProblemView::describe(&mut schemas);
    let mut examples = docs::examples();
    let mut paths = PathsBuilder::new();
    for endpoint in table {
        let mut operation = OperationBuilder::new()
            .summary(Some(endpoint.summary))
            .description(Some(meaning(endpoint)))
            .operation_id(Some(endpoint.operation_id()))
            .deprecated(endpoint.is_deprecated.then_some(Deprecated::True))
            .extensions(examples.remove(&endpoint.operation_id()).map(example_extension))
            .tag(tag(endpoint.path));
        schemas.set_direction(Direction::In);
        operation = with_parameters(operation, endpoint, &mut schemas);
        if let Some(describe) = endpoint.request {
            let content = ContentBuilder::new().schema(Some(describe(&mut schemas))).build();
            let mut body =
                RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
            for (media_type, describe) in &endpoint.request_forms {
                body = body.content(*media_type, ContentBuilder::new().schema(Some(describe(&mut schemas))).build());
            }
            operation = operation.request_body(Some(body.build()));
        }
        schemas.set_direction(Direction::Out(form));
        operation = with_answers(operation, endpoint, &problem, &mut schemas);
        operation = operation.securities(Some(match endpoint.access {
            Access::Key => vec![SecurityRequirement::new::<_, [&str; 0], &str>(SCHEME, [])],
            Access::Public => Vec::new(),
        }));
        paths = paths.path(endpoint.path, PathItem::new(http_method(&endpoint.method), operation.build()));
    }
    schemas.set_direction(Direction::Out(form));
    let webhooks = (form == DecimalForm::Number).then(|| webhooks::described(webhooks, &mut schemas));
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-KEY")));
    let components = ComponentsBuilder::new().schemas_from_iter(schemas.into_named()).security_scheme(SCHEME, key);
    let info = InfoBuilder::new().title("Billing and usage metering").version(env!("CARGO_PKG_VERSION"));
    let document = OpenApiBuilder::new().info(info.build()).paths(paths.build()).components(Some(components.build()));
    let mut document = serde_json::to_value(document.build()).unwrap_or_default();
    if let Some(webhooks) = webhooks {
        document["webhooks"] = webhooks;
    }
    finish::finished(document, table, form)
}

/// What a call is answered that may have to wait for a second person.
const WAITING_MEANING: &str =
    "Nothing is done yet: it comes to more than one person may do alone, and waits until another one approves.";

fn with_parameters(mut operation: OperationBuilder, endpoint: &Endpoint, schemas: &mut Schemas) -> OperationBuilder {
    for name in endpoint.path_parameters() {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        operation = operation.parameter(parameter.schema(Some(String::describe(schemas))));
    }
    for parameter in endpoint.query_parameters() {
        let required = if parameter.required { Required::True } else { Required::False };
        let built = ParameterBuilder::new().name(parameter.name).parameter_in(ParameterIn::Query);
        let built = built.required(required).description(Some(parameter.meaning));
        operation = operation.parameter(built.schema(Some(schema_of(parameter, schemas))));
    }
    if endpoint.takes_key {
        let meaning = "Names the request: sent again with the same key, it is done once and answered the same.";
        let header = ParameterBuilder::new().name("Idempotency-Key").parameter_in(ParameterIn::Header);
        let header = header.required(Required::False).description(Some(meaning));
        operation = operation.parameter(header.schema(Some(String::describe(schemas))));
    }
    operation
}

fn schema_of(parameter: &Parameter, schemas: &mut Schemas) -> Schema {
    match parameter.name {
        "limit" => {
            let limit = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(1_000));
            limit.build().into()
        }
        _ if parameter.is_list => Vec::<String>::describe(schemas),
        _ => String::describe(schemas),
    }
}

fn with_answers(
    mut operation: OperationBuilder,
    endpoint: &Endpoint,
    problem: &Schema,
    schemas: &mut Schemas,
) -> OperationBuilder {
    let problem = || ContentBuilder::new().schema(Some(problem.clone())).build();
    match endpoint.answer {
        Some((status, describe)) => {
            let mut response = ResponseBuilder::new().description("Success.");
            // Generators of clients cannot read pictures, and nobody asks a client for one.
            if !endpoint.media_type.starts_with("image/") {
                let content = ContentBuilder::new().schema(Some(describe(schemas))).build();
                response = response.content(endpoint.media_type, content);
            }
            if endpoint.is_paged() {
                let link = HeaderBuilder::new().schema(Some(String::describe(schemas)));
                response = response.header("Link", link.description(Some(LINK_MEANING)).build());
            }
            operation = operation.response(status.to_string(), response.build());
        }
        None => operation = operation.response("204", ResponseBuilder::new().description("It is done.").build()),
    }
    if endpoint.may_wait {
        let content = ContentBuilder::new().schema(Some(ApprovalView::describe(schemas))).build();
        let waiting = ResponseBuilder::new().description(WAITING_MEANING).content("application/json", content);
        operation = operation.response(WAITING_STATUS.to_string(), waiting.build());
    }
    if let Some((status, describe)) = endpoint.refusal {
        let content = ContentBuilder::new().schema(Some(describe(schemas))).build();
        let refusal = ResponseBuilder::new().description("Nothing was done.").content("application/json", content);
        operation = operation.response(status.to_string(), refusal.content(PROBLEM_JSON, problem()).build());
    }
    let failure = ResponseBuilder::new().description("Any error.").content(PROBLEM_JSON, problem());
    operation.response("default", failure.build())
}

/// What is worth knowing of a call beside its summary.
fn meaning(endpoint: &Endpoint) -> String {
    let mut parts = Vec::new();
    if endpoint.is_paged() {
        parts.push(LIST_MEANING.to_owned());
    }
    if let Some(scope) = endpoint.needed_scope() {
        parts.push(format!("Needs a key with the scope `{}`.", scope.as_str()));
    }
    parts.push(endpoint.unknown_fields().meaning().to_owned());
    let codes: Vec<_> = calls::of_rules(&endpoint.method, endpoint.path).iter().map(|code| code.text).collect();
    if !codes.is_empty() {
        parts.push(format!("The codes of its rules: `{}`.", codes.join("`, `")));
    }
    parts.join(" ")
}

/// The example as the interactive page reads it: see [`docs::Example`].
fn example_extension(example: docs::Example) -> Extensions {
    ExtensionsBuilder::new().add("x-example", json!(example)).build()
}

fn http_method(method: &Method) -> HttpMethod {
    match method.as_str() {
        "POST" => HttpMethod::Post,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// The noun that a call is about; what is about no noun of the interface is about the service.
fn tag(path: &str) -> &str {
    let noun = path.strip_prefix("/api/").and_then(|rest| rest.split('/').next());
    noun.filter(|noun| *noun != "healthcheck").unwrap_or(finish::SERVICE)
}
