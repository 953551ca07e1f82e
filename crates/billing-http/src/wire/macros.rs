//! The macros that declare bodies and views.

/// Declares what a call takes: a struct that reads itself from JSON, all faults at once, and describes itself.
///
/// A field is `required` (there and not null), `optional` (missing and null are `None`) or a `patch` (missing
/// keeps, null clears). What else the object has is left to [`crate::unknown_field`].
macro_rules! body {
    (
        $(#[doc = $doc:literal])*
        $name:ident { $( $(#[doc = $field_doc:literal])* $kind:ident $field:ident: $type:ty, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $( $(#[doc = $field_doc])* pub $field: $crate::wire::body!(@type $kind $type), )*
        }

        impl $crate::wire::FromJson for $name {
            fn from_json(value: serde_json::Value) -> Result<Self, billing_domain::FieldErrors> {
                $crate::wire::read_whole(value)
            }

            fn read_on(value: serde_json::Value, errors: &mut billing_domain::FieldErrors) -> Option<Self> {
                let object = $crate::wire::Object::new(value);
                let mut object = object.map_err(|faults| errors.0.extend(faults.0)).ok()?;
                $( let $field = object.$kind::<$type>($crate::wire::body!(@name $field)); )*
                errors.0.extend(object.into_errors().0);
                Some(Self { $($field: $field?,)* })
            }
        }

        impl $crate::wire::Described for $name {
            fn describe(schemas: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                schemas.object::<Self>(stringify!($name), concat!($($doc),*), |object| {
                    $( object.field::<$type>(
                        $crate::wire::body!(@name $field),
                        concat!($($field_doc),*),
                        $crate::wire::body!(@required $kind),
                    ); )*
                })
            }
        }
    };
    (@type required $type:ty) => { $type };
    (@type optional $type:ty) => { Option<$type> };
    (@type patch $type:ty) => { $crate::wire::Patch<$type> };
    (@required required) => { true };
    (@required $other:ident) => { false };
    (@name $field:ident) => { stringify!($field).trim_start_matches("r#") };
}

/// Declares what a call answers: a struct that writes itself as JSON and describes itself.
///
/// A view that shows all that another shows, and more, begins with `..name: Other`: the fields of `Other` stand
/// in the answer beside its own.
macro_rules! view {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            $( ..$whole:ident: $whole_type:ty, )?
            $( $(#[doc = $field_doc:literal])* $field:ident: $type:ty, )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, serde::Serialize)]
        pub struct $name {
            $( #[doc = "What it shows like another view."] #[serde(flatten)] pub $whole: $whole_type, )?
            $( $(#[doc = $field_doc])* pub $field: $type, )*
        }

        impl $name {
            /// Describes its fields as those of an object.
            pub(crate) fn describe_fields(object: &mut $crate::wire::ObjectFields<'_>) {
                $( <$whole_type>::describe_fields(object); )?
                $( object.field::<$type>(
                    stringify!($field).trim_start_matches("r#"),
                    concat!($($field_doc),*),
                    <$type as $crate::wire::Described>::IS_ALWAYS_SHOWN,
                ); )*
            }
        }

        impl $crate::wire::Described for $name {
            fn describe(schemas: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                schemas.object::<Self>(stringify!($name), concat!($($doc),*), Self::describe_fields)
            }
        }
    };
}

/// Lets a domain type be read as the body that it is made from: `command from its Body`, by `Body::read`. That gets to
/// see what was wrong with the fields, and adds what is wrong with them together.
macro_rules! read_through {
    ($($type:ty = $body:ty;)*) => {
        $(
            impl $crate::wire::FromJson for $type {
                fn from_json(value: serde_json::Value) -> Result<Self, billing_domain::FieldErrors> {
                    $crate::wire::read_whole(value)
                }

                fn read_on(value: serde_json::Value, errors: &mut billing_domain::FieldErrors) -> Option<Self> {
                    let mut all = billing_domain::FieldErrors::default();
                    let body = <$body as $crate::wire::FromJson>::read_on(value, &mut all);
                    let by_field = all.0.len();
                    let read = body.and_then(|body| body.read(&mut all));
                    let later = billing_domain::FieldErrors(all.0.split_off(by_field));
                    all.add_found_later(later);
                    errors.0.extend(all.0);
                    read
                }
            }

            impl $crate::wire::Described for $type {
                fn describe(schemas: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                    <$body as $crate::wire::Described>::describe(schemas)
                }
            }
        )*
    };
}

/// Declares bodies whose fields can be bad by their form alone, or by what only shows under way.
macro_rules! faultless {
    ($($body:ty),*) => {
        $(
            impl billing_domain::workflow::Faults for $body {
                fn faults(
                    &self,
                    _: &mut dyn billing_domain::store::Transaction,
                    _: time::OffsetDateTime,
                ) -> Result<billing_domain::FieldErrors, billing_domain::Error> {
                    Ok(billing_domain::FieldErrors::default())
                }
            }
        )*
    };
}

pub(crate) use {body, faultless, read_through, view};
