//! Unpacking bodies: a few bytes may become many, and cost work even where nothing comes out.

use std::io::Read;

use flate2::bufread::GzDecoder;

use crate::error::{ApiError, codes};

/// Most gzip members of one body. Senders make one; each costs work of its own, however little is in it.
const GZIP_MEMBERS_MAX: usize = 16;
/// How much is unpacked at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// What was packed. Room for it is made as it comes out, once `take` has agreed to so many bytes more.
///
/// # Errors
/// When it is not gzip, comes to more than `bytes_max`, or has too many members; and those of `take`.
pub fn unpack(
    mut packed: &[u8],
    bytes_max: usize,
    mut take: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let mut plain = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    for _ in 0..GZIP_MEMBERS_MAX {
        let mut member = GzDecoder::new(&mut packed);
        loop {
            let length = member.read(&mut piece).map_err(|_| {
                ApiError::new(&codes::PARSE_ERROR, "The body is not gzip, though its Content-Encoding says so.")
            })?;
            if length == 0 {
                break;
            }
            let needed = plain.len() + length;
            if needed > bytes_max {
                return Err(too_large(bytes_max));
            }
            if needed > plain.capacity() {
                let room = (2 * plain.capacity()).clamp(needed, bytes_max);
                take(room - plain.capacity())?;
                plain.reserve_exact(room - plain.len());
            }
            plain.extend_from_slice(&piece[..length]);
        }
        if packed.is_empty() {
            return Ok(plain);
        }
    }
    let detail = format!("The body is in more than {GZIP_MEMBERS_MAX} gzip members.");
    Err(ApiError::new(&codes::PARSE_ERROR, detail))
}

/// The refusal of a body that is too large, as it was sent or unpacked.
pub(super) fn too_large(bytes_max: usize) -> ApiError {
    ApiError::new(&codes::PAYLOAD_TOO_LARGE, format!("The body may have at most {bytes_max} bytes, also decompressed."))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn nothing_is_unpacked_that_there_is_no_room_for() {
        let mebibyte = 1024 * 1024;
        let bomb = packed(&vec![b' '; 10 * mebibyte]);
        let (mut taken, most) = (0, 2 * mebibyte);
        let refused = unpack(&bomb, 10 * mebibyte, |room| {
            if taken + room > most {
                return Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT));
            }
            taken += room;
            Ok(())
        });
        assert_eq!(refused.expect_err("no room for all").title(), "too_many_in_flight");
        assert!(taken > 0, "and some of it was unpacked");
        let mut taken = 0;
        let plain = unpack(&bomb, 10 * mebibyte, |room| {
            taken += room;
            Ok(())
        });
        let plain = plain.expect("there is room");
        assert_eq!((plain.len(), plain.capacity(), taken), (10 * mebibyte, 10 * mebibyte, 10 * mebibyte));
        let two = [packed(b"{\"a\":"), packed(b"1}")].concat();
        assert_eq!(unpack(&two, 7, |_| Ok(())).expect("as much as is allowed"), b"{\"a\":1}");
        assert_eq!(unpack(&two, 6, |_| Ok(())).expect_err("one less").title(), codes::PAYLOAD_TOO_LARGE.text);
    }
}
