//! Whether a transaction may send statements.

/// While statements are refused, whether one was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// They are sent.
    Allowed,
    /// What is at hand has to be enough.
    Refused {
        /// It was not.
        missed: bool,
    },
}

impl Statements {
    /// Whether a statement may be sent; if not, it was missed.
    pub(super) fn pass(&mut self) -> bool {
        match self {
            Self::Allowed => true,
            Self::Refused { missed } => {
                *missed = true;
                false
            }
        }
    }
}
