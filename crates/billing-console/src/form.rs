//! Forms: fields that are shown with their labels and sent to the API under their own names.

use maud::{Markup, html};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::Failure;
use crate::layout::form_token;
use crate::text;
use crate::visit::{Fields, Visit};
use crate::zone::ViewerZone;

/// What can be put into a field.
#[derive(Clone, Copy)]
pub enum Input {
    /// A line of at most so many characters.
    Text(u16),
    /// Several lines.
    Lines,
    /// A number, exact as it is typed.
    Number,
    /// An instant, in the viewer's time zone.
    Instant,
    /// A day.
    Day,
    /// One of several: what is sent, and what is read. Nothing is sent for an empty one.
    Choice(&'static [(&'static str, &'static str)]),
}

/// A field of a call of the API.
#[derive(Clone, Copy)]
pub struct Field {
    /// As the API calls it.
    pub name: &'static str,
    /// As people call it.
    pub label: &'static str,
    /// What else is to be known.
    pub hint: Option<&'static str>,
    /// What can be put into it.
    pub input: Input,
    /// Whether it may not be left empty.
    pub is_required: bool,
}

impl Field {
    /// A field that may be left empty.
    pub const fn new(name: &'static str, label: &'static str, input: Input) -> Self {
        Self { name, label, hint: None, input, is_required: false }
    }

    /// The same, to be filled in.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// The same, with a hint.
    #[must_use]
    pub const fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// What is sent, how it is called, and where one goes who does not want it.
pub struct Form<'f> {
    /// The fields with what stands in them at first.
    pub fields: &'f [(Field, String)],
    /// The button's text.
    pub button: &'static str,
    /// Whether it takes something away that does not come back.
    pub is_danger: bool,
    /// The way back, and how it is called.
    pub back: (&'f str, &'static str),
}

impl Form<'_> {
    /// The form, sent to the page's own path.
    pub fn render(&self, visit: &Visit<'_>) -> Markup {
        self.render_with(visit, &html! {})
    }

    /// The same with something more to be filled in below its fields.
    pub fn render_with(&self, visit: &Visit<'_>, more: &Markup) -> Markup {
        let (to, back) = self.back;
        html! {
            form.act method="post" {
                (form_token(&visit.viewer.form_token))
                input type="hidden" name="once" value=(visit.once);
                @for (field, value) in self.fields { (field.render(value, &visit.viewer.zone)) }
                (more)
                button.danger[self.is_danger] type="submit" { (self.button) }
                a href=(to) { (back) }
            }
        }
    }
}

impl Field {
    /// The field with this in it.
    pub fn render(&self, value: &str, zone: &ViewerZone) -> Markup {
        self.render_as(self.name, (value, None), zone)
    }

    /// The same under another name, as one of a row, with what is wrong with what stands in it.
    pub fn render_as(&self, name: &str, (value, fault): (&str, Option<&str>), zone: &ViewerZone) -> Markup {
        let required = self.is_required;
        let (hint_id, fault_id) = (format!("{name}-hint"), format!("{name}-fault"));
        let told: Vec<&str> = [fault.map(|_| &*fault_id), self.hint.map(|_| &*hint_id)].into_iter().flatten().collect();
        let hinted = (!told.is_empty()).then(|| told.join(" "));
        let invalid = fault.map(|_| "true");
        let field = match self.input {
            Input::Text(longest) => html! {
                input id=(name) name=(name) maxlength=(longest) required[required] value=(value) autocomplete="off"
                    aria-describedby=[&hinted] aria-invalid=[invalid];
            },
            Input::Lines => html! {
                textarea id=(name) name=(name) rows="8" required[required] spellcheck="false" autocomplete="off"
                    aria-describedby=[&hinted] aria-invalid=[invalid] { (value) }
            },
            Input::Number => html! {
                input id=(name) name=(name) inputmode="decimal" maxlength="60" required[required] value=(value)
                    autocomplete="off" aria-describedby=[&hinted] aria-invalid=[invalid];
            },
            Input::Instant => html! {
                input id=(name) name=(name) type="datetime-local" step="1" required[required]
                    value=(written(value, zone)) aria-describedby=[&hinted] aria-invalid=[invalid];
            },
            Input::Day => html! {
                input id=(name) name=(name) type="date" required[required] value=(value) aria-describedby=[&hinted]
                    aria-invalid=[invalid];
            },
            Input::Choice(choices) => html! {
                select id=(name) name=(name) aria-describedby=[&hinted] aria-invalid=[invalid] {
                    @for (sent, words) in choices { option value=(sent) selected[*sent == value] { (words) } }
                }
            },
        };
        let may_be_empty = !required && !matches!(self.input, Input::Choice(_));
        html! {
            label for=(name) {
                (self.label)
                @if matches!(self.input, Input::Instant) { " (" (zone.name()) ")" }
                @if may_be_empty { " " span.quiet { (text::OPTIONAL) } }
            }
            (field)
            @if let Some(fault) = fault { p.fault id=(fault_id) { (fault) } }
            @if let Some(hint) = self.hint { p.hint id=(hint_id) { (hint) } }
        }
    }

    /// What stands in it at first: the first of several, and otherwise nothing.
    pub fn first_value(&self) -> &'static str {
        match self.input {
            Input::Choice(choices) => choices.first().map_or("", |(sent, _)| *sent),
            _ => "",
        }
    }

    /// What was put into it, as the API takes it; `None` when that is nothing.
    fn read(&self, filled: &Fields, zone: &ViewerZone) -> Result<Option<Value>, Failure> {
        let Some(typed) = filled.get(self.name) else { return Ok(None) };
        match self.input {
            Input::Instant => {
                let instant = zone.read(typed)?.format(&Rfc3339);
                instant.map(|text| Some(text.into())).map_err(|_| Failure::new(400, "invalid", text::NO_TIME))
            }
            _ => Ok(Some(typed.into())),
        }
    }
}

/// An instant of the API as it stands in a field.
fn written(value: &str, zone: &ViewerZone) -> String {
    OffsetDateTime::parse(value, &Rfc3339).map_or_else(|_| value.to_owned(), |instant| zone.local(instant))
}

/// What was put into these fields, as the body of a call.
///
/// # Errors
/// A time that there is not in the viewer's zone, or twice.
pub fn body<'f>(visit: &Visit<'_>, fields: impl IntoIterator<Item = &'f Field>) -> Result<Map<String, Value>, Failure> {
    body_of(&visit.form, fields, &visit.viewer.zone)
}

/// The same of a form that was sent to look at something, and stands in the query.
///
/// # Errors
/// As [`body`].
pub fn body_of<'f>(
    filled: &Fields,
    fields: impl IntoIterator<Item = &'f Field>,
    zone: &ViewerZone,
) -> Result<Map<String, Value>, Failure> {
    let mut body = Map::new();
    for field in fields {
        body.extend(field.read(filled, zone)?.map(|value| (field.name.to_owned(), value)));
    }
    Ok(body)
}

/// Fields with nothing in them.
pub fn empty(fields: &[Field]) -> Vec<(Field, String)> {
    fields.iter().map(|field| (*field, String::new())).collect()
}
