//! API keys: their text, and the keyed digest that stands for them in the store.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::{fmt, fs};

use billing_domain::api_key::Fingerprint;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const PREFIX_CHARACTERS: usize = 8;
const SECRET_CHARACTERS: usize = 32;
const PEPPER_BYTES: usize = 32;
const PEPPER_FILE: &str = "key-pepper";

/// The text of a key, `<8>.<32>` letters and digits. It is shown once and printed never.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// A new key of 238 random bits.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut text = String::with_capacity(PREFIX_CHARACTERS + 1 + SECRET_CHARACTERS);
        while text.len() < PREFIX_CHARACTERS + 1 + SECRET_CHARACTERS {
            if text.len() == PREFIX_CHARACTERS {
                text.push('.');
            }
            let mut byte = [0];
            getrandom::fill(&mut byte)?;
            // The greatest multiple of 62 in a byte: what is above would favour the first letters.
            if byte[0] < 248 {
                text.push(char::from(ALPHABET[usize::from(byte[0] % 62)]));
            }
        }
        Ok(Self(text))
    }

    /// The key that `text` is, if it has the shape of one.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, secret) = text.split_once('.')?;
        let is_part =
            |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_key = is_part(prefix, PREFIX_CHARACTERS) && is_part(secret, SECRET_CHARACTERS);
        is_key.then(|| Self(text.to_owned()))
    }

    /// The part that may be shown and logged.
    pub fn prefix(&self) -> &str {
        &self.0[..PREFIX_CHARACTERS]
    }

    /// The whole key, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.***", self.prefix())
    }
}

/// What keys are digested with: without it, a copy of the database tells nothing about a leaked key.
#[derive(Clone)]
pub struct Pepper(Vec<u8>);

/// Why there is no pepper.
#[derive(Debug)]
pub enum PepperError {
    /// The file could not be read or written.
    File(io::Error),
    /// The system has no randomness.
    Random(getrandom::Error),
    /// The file can be read by others.
    Readable,
}

impl fmt::Display for PepperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "the file {PEPPER_FILE:?} of the data folder: {error}"),
            Self::Random(error) => write!(f, "no randomness: {error}"),
            Self::Readable => {
                write!(f, "the file {PEPPER_FILE:?} of the data folder can be read by others; its mode must be 0600")
            }
        }
    }
}

impl std::error::Error for PepperError {}

impl From<io::Error> for PepperError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl Pepper {
    /// The pepper of the configuration.
    pub fn from_text(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// The pepper kept in `data_dir`, made on first use.
    ///
    /// # Errors
    /// As [`Pepper::find_in`].
    pub fn of_data_dir(data_dir: &Path) -> Result<Self, PepperError> {
        if let Some(found) = Self::find_in(data_dir)? {
            return Ok(found);
        }
        let path = data_dir.join(PEPPER_FILE);
        fs::create_dir_all(data_dir)?;
        let mut bytes = [0; PEPPER_BYTES];
        getrandom::fill(&mut bytes).map_err(PepperError::Random)?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            // Another process was first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Self::read(&path),
            file => {
                let mut file = file?;
                file.write_all(&bytes)?;
                file.sync_all()?;
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The pepper kept in `data_dir`, if there is one.
    ///
    /// # Errors
    /// [`PepperError`]; a file that others can read is refused.
    pub fn find_in(data_dir: &Path) -> Result<Option<Self>, PepperError> {
        match Self::read(&data_dir.join(PEPPER_FILE)) {
            Err(PepperError::File(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// The pepper itself, for deriving keys from it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the database knows this pepper by: a keyed digest of a text that is no key.
    pub fn mark(&self) -> Vec<u8> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return Vec::new() };
        mac.update(b"the pepper of this database");
        mac.finalize().into_bytes().to_vec()
    }

    fn read(path: &Path) -> Result<Self, PepperError> {
        let mut file = fs::File::open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(PepperError::Readable);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if bytes.len() < PEPPER_BYTES {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "too short").into());
        }
        Ok(Self(bytes))
    }

    /// What the store keeps of a key.
    pub fn fingerprint(&self, key: &KeyText) -> Fingerprint {
        Fingerprint { prefix: key.prefix().to_owned(), digest: self.digest(key) }
    }

    /// The keyed digest of a key.
    pub fn digest(&self, key: &KeyText) -> Vec<u8> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of any length");
        };
        mac.update(key.0.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }

    /// Whether `digest` is that of `key`, in a time that does not tell how much of it is right.
    pub fn matches(&self, key: &KeyText, digest: &[u8]) -> bool {
        self.digest(key).ct_eq(digest).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_shape() {
        let key = KeyText::generate().expect("randomness");
        assert_eq!(KeyText::parse(key.reveal()).as_ref(), Some(&key));
        assert_eq!(key.prefix(), &key.reveal()[..8]);
        assert!(!format!("{key:?}").contains(&key.reveal()[9..]), "the secret is not printed");
        let secret = "a".repeat(32);
        #[rustfmt::skip]
        let cases = [
            // text,                          is a key, why
            (format!("abcdEF12.{secret}"),    true,  "letters and digits"),
            (format!("abcdEF1.{secret}"),     false, "a short prefix"),
            (format!("abcdEF12.{secret}a"),   false, "a long secret"),
            (format!("abcdEF12{secret}a"),    false, "no dot"),
            (format!("abcdEF1é.{secret}"),    false, "not ASCII"),
            (format!("abcdEF1-.{secret}"),    false, "a sign"),
            (String::new(),                   false, "nothing"),
        ];
        for (text, is_key, why) in cases {
            assert_eq!(KeyText::parse(&text).is_some(), is_key, "{text}: {why}");
        }
    }

    #[test]
    fn a_digest_depends_on_pepper_and_key() {
        let key = KeyText::parse(&format!("abcdEF12.{}", "a".repeat(32))).expect("a key");
        let other = KeyText::parse(&format!("abcdEF12.{}b", "a".repeat(31))).expect("a key");
        let pepper = Pepper::from_text("salt and");
        let digest = pepper.digest(&key);
        assert_eq!(digest.len(), 32);
        assert!(pepper.matches(&key, &digest));
        assert!(!pepper.matches(&other, &digest));
        assert!(!pepper.matches(&key, &digest[..31]));
        assert!(!Pepper::from_text("another").matches(&key, &digest));
    }

    #[test]
    fn the_pepper_of_a_folder_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let nested = folder.path().join("data");
        let made = Pepper::of_data_dir(&nested).expect("made");
        assert_eq!(made.0, Pepper::of_data_dir(&nested).expect("read").0);
        let file = nested.join(PEPPER_FILE);
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("permissions");
        assert!(matches!(Pepper::of_data_dir(&nested), Err(PepperError::Readable)));
    }
}
