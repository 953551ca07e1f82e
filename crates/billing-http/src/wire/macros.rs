//! The macros that declare bodies and views.

/// Declares what a call takes: a struct that reads itself from JSON, all faults at once, and describes itself.
///
/// A field is `required` (there and not null), `optional` (missing and null are `None`), a `change` (missing keeps, null
/// is refused) or a `patch` (missing keeps, null clears); `together` is what several fields say as one. What else the object has is left to [`crate::unknown_field`].
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
                let mut object = $crate::wire::Object::new(value)?;
                $( let $field = object.$kind::<$type>($crate::wire::body!(@name $field)); )*
                object.finish(|| Some(Self { $($field: $field?,)* }))
            }
        }

        impl $crate::wire::Described for $name {
            fn describe(schemas: &mut $crate::wire::Schemas) -> $crate::wire::Schema {
                schemas.object::<Self>(stringify!($name), concat!($($doc),*), |object| {
                    $( $crate::wire::body!(@describe $kind object, $type, $field, concat!($($field_doc),*)); )*
                })
            }
        }
    };
    (@describe together $object:ident, $type:ty, $field:ident, $doc:expr) => {
        <$type as $crate::wire::FromFields>::describe_fields($object)
    };
    (@describe $kind:ident $object:ident, $type:ty, $field:ident, $doc:expr) => {
        $object.field::<$type>($crate::wire::body!(@name $field), $doc, $crate::wire::body!(@required $kind))
    };
    (@type required $type:ty) => { $type };
    (@type together $type:ty) => { $type };
    (@type change $type:ty) => { Option<$type> };
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

/// Lets a domain type be read as the body that it is made from, by `Body::read`. That is asked once each field is right by
/// itself, and tells what is wrong with them together.
macro_rules! read_through {
    ($($type:ty = $body:ty;)*) => {
        $(
            impl $crate::wire::FromJson for $type {
                fn from_json(value: serde_json::Value) -> Result<Self, billing_domain::FieldErrors> {
                    <$body as $crate::wire::FromJson>::from_json(value)?.read()
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

pub(crate) use {body, read_through, view};
