//! The OpenAPI 3.1 document, made from the route table and the types in it.

use actix_web::http::Method;
use actix_web::{HttpResponse, Responder};
use serde_json::json;
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Required, ResponseBuilder,
};

use crate::docs;
use crate::endpoint::{Access, Endpoint};
use crate::error::{PROBLEM_JSON, ProblemView};
use crate::routes;
use crate::wire::{Described, Schemas};

const SCHEME: &str = "api_key";

/// `GET /openapi.json`
pub async fn show() -> impl Responder {
    HttpResponse::Ok().json(document(&routes::table()))
}

/// The document that describes a table of calls.
pub fn document(table: &[Endpoint]) -> OpenApi {
    let mut schemas = Schemas::default();
    let problem = ProblemView::describe(&mut schemas);
    let mut examples = docs::examples();
    let mut paths = PathsBuilder::new();
    for endpoint in table {
        let mut operation = OperationBuilder::new()
            .summary(Some(endpoint.summary))
            .description(Some(endpoint.unknown_fields().meaning()))
            .operation_id(Some(operation_id(endpoint)))
            .extensions(examples.remove(&operation_id(endpoint)).map(example_extension))
            .tag(tag(endpoint.path));
        for name in endpoint.path_parameters() {
            let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
            operation = operation.parameter(parameter.schema(Some(String::describe(&mut schemas))));
        }
        for parameter in endpoint.query_parameters() {
            let required = if parameter.required { Required::True } else { Required::False };
            let built = ParameterBuilder::new().name(parameter.name).parameter_in(ParameterIn::Query);
            let built = built.required(required).description(Some(parameter.meaning));
            operation = operation.parameter(built.schema(Some(String::describe(&mut schemas))));
        }
        if endpoint.takes_key {
            let meaning = "Names the request: sent again with the same key, it is done once and answered the same.";
            let header = ParameterBuilder::new().name("Idempotency-Key").parameter_in(ParameterIn::Header);
            let header = header.required(Required::False).description(Some(meaning));
            operation = operation.parameter(header.schema(Some(String::describe(&mut schemas))));
        }
        if let Some(describe) = endpoint.request {
            let content = ContentBuilder::new().schema(Some(describe(&mut schemas))).build();
            let body = RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
            operation = operation.request_body(Some(body.build()));
        }
        if let Some((status, describe)) = endpoint.answer {
            let content = ContentBuilder::new().schema(Some(describe(&mut schemas))).build();
            let response = ResponseBuilder::new().description("Success.").content(endpoint.media_type, content);
            operation = operation.response(status.to_string(), response.build());
        }
        if let Some((status, describe)) = endpoint.refusal {
            let content = ContentBuilder::new().schema(Some(describe(&mut schemas))).build();
            let problem = ContentBuilder::new().schema(Some(problem.clone())).build();
            let refusal = ResponseBuilder::new().description("Nothing was done.").content("application/json", content);
            let refusal = refusal.content(PROBLEM_JSON, problem);
            operation = operation.response(status.to_string(), refusal.build());
        }
        let content = ContentBuilder::new().schema(Some(problem.clone())).build();
        let failure = ResponseBuilder::new().description("Any error.").content(PROBLEM_JSON, content);
        operation = operation.response("default", failure.build());
        if endpoint.access == Access::Key {
            operation = operation.security(SecurityRequirement::new::<_, [&str; 0], &str>(SCHEME, []));
        }
        paths = paths.path(endpoint.path, PathItem::new(http_method(&endpoint.method), operation.build()));
    }
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-KEY")));
    let components = ComponentsBuilder::new().schemas_from_iter(schemas.into_named()).security_scheme(SCHEME, key);
    let info = InfoBuilder::new()
        .title("Billing and usage metering")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Plans, usage events, subscriptions, access checks and invoices."));
    OpenApiBuilder::new().info(info.build()).paths(paths.build()).components(Some(components.build())).build()
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

/// `post_api_plans_plan_id_versions`: stable, unique, readable in generated clients.
pub fn operation_id(endpoint: &Endpoint) -> String {
    let words = endpoint.path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    format!("{}_{}", endpoint.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn tag(path: &str) -> &str {
    path.trim_start_matches("/api/").trim_start_matches('/').split('/').next().unwrap_or_default()
}
