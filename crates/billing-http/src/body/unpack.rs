//! Unpacking bodies: a few bytes may become many, and cost work even where nothing comes out.

use std::io::Read;

use flate2::bufread::GzDecoder;

use crate::error::{ApiError, codes};

/// Most gzip members of one body. Senders make one; each costs work of its own, however little is in it.
const GZIP_MEMBERS_MAX: usize = 16;
/// How much is unpacked at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// Most bytes that one byte of a deflated stream can stand for (zlib's technical notes).
const DEFLATE_RATIO_MAX: usize = 1_032;

/// What was packed. Room for it is made once, as much as gzip notes at the end of a member; where that was not all, as
/// much as is found by unpacking it for its length alone. Room that grew instead would leave memory of every size behind.
/// `take` agrees to room before it is made.
///
/// # Errors
/// When it is not gzip, comes to more than `bytes_max`, or has too many members; and those of `take`.
pub fn unpack(
    packed: &[u8],
    bytes_max: usize,
    mut take: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let mut room = noted_length(packed).min(bytes_max);
    take(room)?;
    let mut plain = Vec::new();
    plain.reserve_exact(room);
    each_piece(packed, bytes_max, |piece| {
        if plain.len() + piece.len() > room {
            let mut length = 0;
            each_piece(packed, bytes_max, |piece| {
                length += piece.len();
                Ok(())
            })?;
            take(length - room)?;
            plain.reserve_exact(length - plain.len());
            room = length;
        }
        plain.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(plain)
}

/// The length of the last member as its end has it (RFC 1952, ISIZE), but no more than can have been packed in so little.
fn noted_length(packed: &[u8]) -> usize {
    let noted = packed.last_chunk().map_or(0, |end| u32::from_le_bytes(*end) as usize);
    noted.min(packed.len().saturating_mul(DEFLATE_RATIO_MAX))
}

/// Unpacks one piece after the other.
fn each_piece(
    mut packed: &[u8],
    bytes_max: usize,
    mut look: impl FnMut(&[u8]) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let (mut piece, mut length) = (vec![0; PIECE_BYTES], 0);
    for _ in 0..GZIP_MEMBERS_MAX {
        let mut member = GzDecoder::new(&mut packed);
        loop {
            let more = member.read(&mut piece).map_err(|_| {
                ApiError::new(&codes::PARSE_ERROR, "The body is not gzip, though its Content-Encoding says so.")
            })?;
            if more == 0 {
                break;
            }
            length += more;
            if length > bytes_max {
                return Err(too_large(bytes_max));
            }
            look(&piece[..more])?;
        }
        if packed.is_empty() {
            return Ok(());
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
    fn room_is_made_once_and_never_more_than_is_agreed_to() {
        let mebibyte = 1024 * 1024;
        let bomb = packed(&vec![b' '; 10 * mebibyte]);
        let refused = unpack(&bomb, 10 * mebibyte, |_| Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT)));
        assert_eq!(refused.expect_err("no room for all").title(), "too_many_in_flight");
        let mut in_parts = packed(&vec![b' '; 6 * mebibyte]);
        in_parts.extend(packed(&vec![b' '; 4 * mebibyte]));
        let mut untrue = bomb.clone();
        *untrue.last_chunk_mut().expect("an end") = 16_u32.to_le_bytes();
        let cases: [(&[u8], &[usize], Option<usize>, &str); 3] = [
            (&bomb, &[10 * mebibyte], Some(10 * mebibyte), "what the end says"),
            (&in_parts, &[4 * mebibyte, 6 * mebibyte], Some(10 * mebibyte), "the end speaks of its own member alone"),
            (&untrue, &[16], None, "an end that is not true is found while the length is"),
        ];
        for (body, expected, length, why) in cases {
            let mut taken = Vec::new();
            let plain = unpack(body, 10 * mebibyte, |room| {
                taken.push(room);
                Ok(())
            });
            assert_eq!(taken, expected, "{why}");
            assert_eq!(plain.as_ref().ok().map(Vec::len), length, "{why}");
            assert_eq!(plain.ok().map(|plain| plain.capacity()), length, "{why}");
        }
    }

    #[test]
    fn what_comes_out_is_bounded() {
        let two = [packed(b"{\"a\":"), packed(b"1}")].concat();
        assert_eq!(unpack(&two, 7, |_| Ok(())).expect("as much as is allowed"), b"{\"a\":1}");
        assert_eq!(unpack(&two, 6, |_| Ok(())).expect_err("one less").title(), codes::PAYLOAD_TOO_LARGE.text);
        let announced = unpack(b"no gzip, but an end\xff\xff\xff\x7f", 1 << 40, |room| {
            assert!(room <= 23 * DEFLATE_RATIO_MAX, "no more than can be in it: {room}");
            Ok(())
        });
        assert_eq!(announced.expect_err("no gzip").title(), codes::PARSE_ERROR.text);
    }
}
