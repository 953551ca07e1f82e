//! Creates an organization.

use time::OffsetDateTime;

use crate::error::Error;
use crate::organization::Organization;
use crate::store::Transaction;
use crate::text;

/// A new tenant, in the scope of its own new id.
#[derive(Clone, Debug)]
pub struct CreateOrganization {
    /// Its name.
    pub name: String,
}

/// Creates the organization that the transaction is for, with every setting at its default.
///
/// # Errors
/// A bad name.
pub fn create_organization(
    tx: &mut dyn Transaction,
    command: &CreateOrganization,
    now: OffsetDateTime,
) -> Result<Organization, Error> {
    text::check(&command.name, text::NAME_CHARACTERS_MAX).map_err(|error| error.under("organization_name"))?;
    let organization = Organization::new(tx.organization(), &command.name, now);
    tx.organizations().insert(&organization)?;
    Ok(organization)
}
