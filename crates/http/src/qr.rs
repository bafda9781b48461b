//! QR codes (ISO/IEC 18004) of what payers scan, as SVG and as PNG.
//!
//! Error correction is of level M and the margin is four modules wide, as BCB's "Manual de Padrões para Iniciação do
//! Pix" has it. It never knows what the text means, and is always dark on white: some readers take nothing else.

use std::fmt::Write as _;

use fast_qr::{ECL, QRBuilder};
use png::{BitDepth, ColorType, Encoder};

/// How many light modules are around the code (ISO/IEC 18004, "quiet zone").
pub(crate) const QUIET_ZONE: usize = 4;

/// Pixels of one byte of a picture.
const PIXELS_A_BYTE: usize = 8;

/// The modules of a code, row by row, without its margin; true is dark.
pub(crate) struct QrCode(Vec<Vec<bool>>);

impl QrCode {
    /// The code of `text`; `None` when it doesn't fit into one.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let code = QRBuilder::new(text).ecl(ECL::M).build().ok()?;
        let rows = code.data.chunks_exact(code.size.max(1)).take(code.size);
        Some(Self(rows.map(|row| row.iter().map(|module| module.value()).collect()).collect()))
    }

    /// How many modules it is wide and high, with its margin.
    pub(crate) fn side(&self) -> usize {
        self.0.len() + 2 * QUIET_ZONE
    }

    /// An SVG whose units are modules. `label` is for whoever can't see it.
    pub(crate) fn svg(&self, label: &str) -> String {
        let side = self.side();
        let mut dark = String::new();
        for (y, row) in self.0.iter().enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|one, next| one == next) {
                if run.first() == Some(&true) {
                    let (x, y) = (x + QUIET_ZONE, y + QUIET_ZONE);
                    // Writing to a text never fails.
                    let _ = write!(dark, "M{x} {y}h{0}v1h-{0}z", run.len());
                }
                x += run.len();
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" shape-rendering=\"crispEdges\" \
             role=\"img\" aria-label=\"{label}\"><rect width=\"{side}\" height=\"{side}\" fill=\"#fff\"/>\
             <path fill=\"#000\" d=\"{dark}\"/></svg>"
        )
    }

    /// A PNG of `size` × `size` pixels. Modules are whole pixels, as many as fit; what is left over widens the margin.
    /// `None` when there are fewer pixels than modules.
    pub(crate) fn png(&self, size: u32) -> Option<Vec<u8>> {
        let pixels = usize::try_from(size).ok()?;
        let scale = pixels / self.side();
        if scale == 0 {
            return None;
        }
        let before = (pixels - scale * self.0.len()) / 2;
        let bytes_a_row = pixels.div_ceil(PIXELS_A_BYTE);
        let white = vec![u8::MAX; bytes_a_row];
        let mut picture = Vec::with_capacity(bytes_a_row * pixels);
        picture.extend(white.repeat(before));
        for row in &self.0 {
            let mut line = white.clone();
            for (x, _) in row.iter().enumerate().filter(|(_, dark)| **dark) {
                for pixel in before + x * scale..before + (x + 1) * scale {
                    if let Some(byte) = line.get_mut(pixel / PIXELS_A_BYTE) {
                        *byte &= !(0x80 >> (pixel % PIXELS_A_BYTE));
                    }
                }
            }
            picture.extend(line.repeat(scale));
        }
        picture.resize(bytes_a_row * pixels, u8::MAX);
        encoded(size, &picture)
    }
}

/// One bit a pixel.
fn encoded(size: u32, picture: &[u8]) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, size, size);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::One);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(picture).ok()?;
    writer.finish().ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// BCB's own example of a dynamic code.
    const CODE: &str = "00020101021226770014BR.GOV.BCB.PIX2555pix.example.com/qr/\
        93598be0-1bd0-4997-8318-81776a1d8a995204000053039865802BR5907EMPRESA6009SAO PAULO62070503***6304EEAB";

    /// What another library reads from a picture in which `dark` tells the pixels.
    fn read(side: usize, dark: impl Fn(usize, usize) -> bool) -> String {
        let shade = |x, y| if dark(x, y) { 0 } else { u8::MAX };
        let mut picture = rqrr::PreparedImage::prepare_from_greyscale(side, side, shade);
        let grids = picture.detect_grids();
        assert_eq!(grids.len(), 1, "{side}");
        let (told, text) = grids[0].decode().unwrap();
        assert_eq!(told.ecc_level, 0, "level M is told by two zero bits");
        text
    }

    fn pixels(file: &[u8]) -> (usize, Vec<u8>) {
        let mut decoder = png::Decoder::new(Cursor::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let told = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((told.width, told.color_type), (told.height, ColorType::Grayscale));
        (usize::try_from(told.width).unwrap(), pixels)
    }

    #[test]
    fn a_picture_of_every_size_is_read_by_another_library() {
        let longest = "7".repeat(512);
        for text in [CODE, "A", &longest] {
            let code = QrCode::of(text).unwrap();
            for size in [128, 129, 200, 511, 512, 1024] {
                let (side, pixels) = pixels(&code.png(size).unwrap());
                assert_eq!(side, usize::try_from(size).unwrap());
                assert_eq!(read(side, |x, y| pixels[y * side + x] < 128), text, "{size}");
                let scale = side / code.side();
                let margin = QUIET_ZONE * scale;
                let light = |x: usize, y: usize| pixels[y * side + x] == u8::MAX;
                for at in 0..side {
                    for near in (0..margin).chain(side - margin..side) {
                        assert!(light(at, near) && light(near, at), "{size}: the margin has a dark pixel");
                    }
                }
            }
        }
    }

    #[test]
    fn fewer_pixels_than_modules_are_no_picture() {
        let code = QrCode::of(CODE).unwrap();
        let side = u32::try_from(code.side()).unwrap();
        assert!(code.png(side - 1).is_none() && code.png(0).is_none());
        assert!(code.png(side).is_some());
    }

    #[test]
    fn the_svg_draws_the_same_modules_within_its_margin() {
        let code = QrCode::of(CODE).unwrap();
        let side = code.side();
        let svg = code.svg("QR");
        assert!(svg.contains(&format!("viewBox=\"0 0 {side} {side}\"")), "{svg}");
        let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let mut drawn = vec![vec![false; side]; side];
        for run in path.split_terminator('z') {
            let numbers: Vec<usize> =
                run.split(['M', ' ', 'h', 'v', '-']).filter_map(|number| number.parse().ok()).collect();
            let [x, y, width, 1, back] = numbers[..] else { panic!("{run}") };
            assert_eq!(width, back);
            drawn[y][x..x + width].fill(true);
        }
        assert_eq!(read(side * 3, |x, y| drawn[y / 3][x / 3]), CODE);
        for (y, row) in code.0.iter().enumerate() {
            assert_eq!(drawn[y + QUIET_ZONE][QUIET_ZONE..side - QUIET_ZONE], row[..], "row {y}");
        }
    }

    #[test]
    fn what_does_not_fit_into_a_code_has_none() {
        assert!(QrCode::of(&"x".repeat(2331)).is_some());
        assert!(QrCode::of(&"x".repeat(2332)).is_none());
    }
}
