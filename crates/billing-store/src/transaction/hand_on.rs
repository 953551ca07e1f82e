//! Decorators: what a transaction does as the one inside of it does.

/// Methods of a repository that are those of the transaction `inner`: `hand_on!(plans => fn list() -> Vec<Plan>;)`.
macro_rules! hand_on {
    ($repository:ident => $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            fn $name(&mut self, $($argument: $type),*) -> Result<$result, billing_domain::Error> {
                self.inner.$repository().$name($($argument),*)
            }
        )*
    };
}

/// The repositories of a transaction: those that it is itself, and those that are the transaction's `inner`.
macro_rules! repositories {
    (self => $($name:ident: $repository:ident,)*) => {
        $(
            fn $name(&mut self) -> &mut dyn $repository {
                self
            }
        )*
    };
    (inner => $($name:ident: $repository:ident,)*) => {
        $(
            fn $name(&mut self) -> &mut dyn $repository {
                self.inner.$name()
            }
        )*
    };
}

pub(crate) use {hand_on, repositories};
