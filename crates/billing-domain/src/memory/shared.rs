//! Values that copies of the state share until one of them changes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that is shared by all its clones. Whoever changes one copies it first, unless nobody else has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Whether the two are one value, and not only equal.
    #[cfg(all(test, feature = "service", feature = "custom-sql"))]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}
