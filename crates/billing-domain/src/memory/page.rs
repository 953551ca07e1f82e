//! Parts of lists.

use std::cmp::Reverse;
use std::str::FromStr;

use crate::error::{Error, FieldError};
use crate::store::{Page, PageRequest};

/// The part of `items` that `page` asks for; the cursor is a position.
pub(super) fn page_of<T>(items: Vec<T>, page: &PageRequest) -> Result<Page<T>, Error> {
    let from = page.after.as_deref().map(|after| after.parse().map_err(|_| FieldError::bad_cursor()));
    let from: usize = from.transpose()?.unwrap_or(0);
    let until = from.saturating_add(page.limit as usize);
    let next = (items.len() > until).then(|| until.to_string());
    Ok(Page { items: items.into_iter().skip(from).take(page.limit as usize).collect(), next })
}

/// The part of a list, newest first, that `page` asks for; the cursor is the id of the last one before it.
pub(super) fn newest_page<T, I>(mut items: Vec<T>, id: impl Fn(&T) -> I, page: &PageRequest) -> Result<Page<T>, Error>
where
    I: Ord + ToString + FromStr,
{
    let after = page.after.as_deref().map(|text| text.parse().map_err(|_| FieldError::bad_cursor()));
    let after: Option<I> = after.transpose()?;
    items.retain(|item| after.as_ref().is_none_or(|after| id(item) < *after));
    items.sort_by_key(|item| Reverse(id(item)));
    let is_last = items.len() <= page.limit as usize;
    items.truncate(page.limit as usize);
    let next = items.last().filter(|_| !is_last).map(|item| id(item).to_string());
    Ok(Page { items, next })
}
