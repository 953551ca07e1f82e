//! Methods of repositories that are all alike: those that are refused, and those that one lane answers.

/// Methods that change what a customer owns.
macro_rules! refuse {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            fn $name(&mut self, $($argument: $type),*) -> Result<$result, billing_domain::Error> {
                $(let _ = $argument;)*
                let fault = concat!(stringify!($name), " of a customer outside of its lane");
                Err(billing_domain::StoreError::Internal(fault.to_owned()).into())
            }
        )*
    };
}

/// Methods about one customer, which its lane answers.
macro_rules! in_its_lane {
    ($repository:ident => $(fn $name:ident($customer:ident: CustomerKey $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(
            fn $name(&mut self, $customer: CustomerKey $(, $argument: $type)*) -> Result<$result, billing_domain::Error> {
                self.of($customer, |tx| tx.$repository().$name($customer $(, $argument)*))
            }
        )*
    };
}

pub(super) use {in_its_lane, refuse};
