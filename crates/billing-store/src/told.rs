//! Who says what stands in messages, and who wants to know when there are new ones.

use std::fmt;
use std::sync::{Arc, OnceLock};

use billing_domain::Error;
use billing_domain::message::Subject;
use billing_domain::store::{Renderer, Transaction};

/// What all transactions share about messages.
#[derive(Default)]
pub(crate) struct Told {
    renderer: OnceLock<Arc<dyn Renderer>>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    marks_bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Told {
    pub(crate) fn set_renderer(&self, renderer: Arc<dyn Renderer>) {
        drop(self.renderer.set(renderer));
    }

    pub(crate) fn renderer(&self) -> Arc<dyn Renderer> {
        self.renderer.get().cloned().unwrap_or_else(|| Arc::new(Unrendered))
    }

    pub(crate) fn set_bell(&self, bell: Box<dyn Fn() + Send + Sync>) {
        drop(self.bell.set(bell));
    }

    /// A transaction was committed that may have written messages.
    pub(crate) fn ring_if(&self, has_written: bool) {
        if let Some(bell) = self.bell.get().filter(|_| has_written) {
            bell();
        }
    }

    pub(crate) fn set_marks_bell(&self, bell: Box<dyn Fn() + Send + Sync>) {
        drop(self.marks_bell.set(bell));
    }

    /// A transaction was committed that may have marked customers whose figures are to be held against usage alerts.
    pub(crate) fn ring_for_marks_if(&self, has_marked: bool) {
        if let Some(bell) = self.marks_bell.get().filter(|_| has_marked) {
            bell();
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

/// Says nothing of a subject: nobody has said how it is to be shown.
struct Unrendered;

impl Renderer for Unrendered {
    fn render(&self, _: &mut dyn Transaction, _: &Subject) -> Result<String, Error> {
        Ok("{}".to_owned())
    }
}
