//! What the groups of a provider make of people in organizations.

use std::str::FromStr;

use billing_domain::id::OrganizationId;
use billing_domain::user::Role;

/// Most entries.
const ENTRIES_MAX: usize = 1_000;

/// Roles by groups, as `group=organization_id:role` with commas between them. Of one organization the first that fits holds, so that
/// the most powerful one comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRoles(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    group: String,
    organization: OrganizationId,
    role: Role,
}

impl FromStr for GroupRoles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries: Vec<Entry> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let entry = part.parse::<Entry>()?;
            if entries.iter().any(|one| (&one.group, one.organization) == (&entry.group, entry.organization)) {
                return Err(format!("the group {:?} has two roles in {}", entry.group, entry.organization));
            }
            entries.push(entry);
        }
        match entries.len() {
            0 => Err("no group has a role, so that nobody could sign in".to_owned()),
            1..=ENTRIES_MAX => Ok(Self(entries)),
            many => Err(format!("{many} entries are more than {ENTRIES_MAX}")),
        }
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(part: &str) -> Result<Self, String> {
        let shape = || format!("{part:?} is not like group=organization_id:role");
        // A group may have the sign in it: it is the last one that counts.
        let (group, meant) = part.rsplit_once('=').ok_or_else(shape)?;
        let (organization, role) = meant.rsplit_once(':').ok_or_else(shape)?;
        if group.trim().is_empty() {
            return Err(shape());
        }
        let organization = organization.trim();
        Ok(Self {
            group: group.trim().to_owned(),
            organization: organization.parse().map_err(|_| format!("{organization:?} is no id of an organization"))?,
            role: role.trim().parse().map_err(|unknown| format!("{:?} is {unknown}", role.trim()))?,
        })
    }
}

impl GroupRoles {
    /// What somebody with these groups is, by organization.
    pub fn of(&self, groups: &[String]) -> Vec<(OrganizationId, Role)> {
        let mut found: Vec<(OrganizationId, Role)> = Vec::new();
        for entry in self.0.iter().filter(|entry| groups.contains(&entry.group)) {
            if !found.iter().any(|(organization, _)| *organization == entry.organization) {
                found.push((entry.organization, entry.role));
            }
        }
        found
    }

    /// The organizations that are spoken of.
    pub fn organizations(&self) -> impl Iterator<Item = OrganizationId> {
        self.0.iter().map(|entry| entry.organization)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn roles_are_read_and_the_first_of_an_organization_holds() {
        let [one, two] = [1, 2].map(|n| OrganizationId::from(Uuid::from_u128(n)));
        let text = format!("admins={one}:owner, /team/fin=ance={one}:finance,admins={two}:reader,");
        let roles: GroupRoles = text.parse().expect("roles");
        #[rustfmt::skip]
        let cases: [(&[&str], &[(OrganizationId, Role)], &str); 6] = [
            // groups,                      roles,                                       why
            (&[],                           &[],                                         "no group, no role"),
            (&["others", "Admins"],         &[],                                         "groups that nothing was said of; case counts"),
            (&["/team/fin=ance"],           &[(one, Role::Finance)],                     "a sign in its name"),
            (&["/team/fin=ance", "admins"], &[(one, Role::Owner), (two, Role::Reader)],  "in the order of the setting, not of the groups"),
            (&["admins"],                   &[(one, Role::Owner), (two, Role::Reader)],  "in two organizations"),
            (&["admins", "admins"],         &[(one, Role::Owner), (two, Role::Reader)],  "told twice"),
        ];
        for (groups, expected, why) in cases {
            let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
            assert_eq!(roles.of(&groups), expected, "{why}");
        }
        assert_eq!(roles.organizations().collect::<Vec<_>>(), [one, one, two]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let one = OrganizationId::from(Uuid::from_u128(1));
        #[rustfmt::skip]
        let cases = [
            // text,                                          told,                       why
            (String::new(),                                   "no group has a role",      "nothing"),
            (", ,".to_owned(),                                "no group has a role",      "commas"),
            ("admins=owner".to_owned(),                       "not like group=",          "without an organization"),
            (format!("={one}:owner"),                         "not like group=",          "without a group"),
            (format!("{one}:owner"),                          "not like group=",          "without a sign"),
            ("admins=acme:owner".to_owned(),                  "no id of an organization", "a name"),
            (format!("admins={one}:admin"),                   "not a valid choice",       "no role"),
            (format!("admins={one}:owner,admins={one}:reader"), "two roles",              "which of both"),
        ];
        for (text, told, why) in cases {
            let error = text.parse::<GroupRoles>().expect_err(why);
            assert!(error.contains(told), "{why}: {error}");
        }
    }
}
