//! The sheet as one page of PDF 1.7, written step by step (docs/adr/0023).
//!
//! It embeds no font, so it can show what Helvetica has in every reader, which is all of Portuguese. A name in another
//! script is never shown with holes: then there is no PDF.

use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use super::font::{encoded, lines};
use super::sheet::Sheet;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const PLAIN_FONT: Ref = Ref::new(5);
const BOLD_FONT: Ref = Ref::new(6);
const INFO: Ref = Ref::new(7);

const PLAIN: Name<'static> = Name(b"F1");
const BOLD: Name<'static> = Name(b"F2");

/// A4, in points.
const WIDE: u16 = 595;
const HIGH: u16 = 842;
/// What is left free around.
const MARGIN: u16 = 56;
/// Where the texts of rows begin.
const TEXTS: u16 = 190;

const TITLE_SIZE: u16 = 16;
const AMOUNT_SIZE: u16 = 26;
const TEXT_SIZE: u16 = 10;
const FOOT_SIZE: u16 = 8;
const LINE: u16 = 14;
const GAP: u16 = 12;

/// Shades of text: black is 0.
const DARK: f32 = 0.08;
const SOFT: f32 = 0.35;

/// A page that is being written from its top.
struct Sketch {
    content: Content,
    /// How far below the top the next line is, at most the page's height.
    down: u16,
}

impl Sketch {
    fn skip(&mut self, points: u16) {
        self.down = self.down.saturating_add(points).min(HIGH);
    }

    fn show(&mut self, font: Name<'_>, size: u16, shade: f32, left: u16, bytes: &[u8]) {
        self.content.set_fill_gray(shade).begin_text().set_font(font, f32::from(size));
        self.content.next_line(f32::from(left), f32::from(HIGH.saturating_sub(self.down)));
        self.content.show(Str(bytes)).end_text();
    }

    fn rule(&mut self) {
        let up = f32::from(HIGH.saturating_sub(self.down));
        self.content.set_stroke_gray(0.75).move_to(f32::from(MARGIN), up);
        self.content.line_to(f32::from(WIDE.saturating_sub(MARGIN)), up).stroke();
    }
}

/// In thousandths of a font's size, the room from `left` to the margin.
fn room(left: u16, size: u16) -> u32 {
    let points = WIDE.saturating_sub(MARGIN).saturating_sub(left);
    u32::from(points).saturating_mul(1_000).checked_div(u32::from(size)).unwrap_or_default()
}

/// The file; `None` when a text has a character that the font hasn't.
pub(super) fn file(sheet: &Sheet) -> Option<Vec<u8>> {
    let content = drawn(sheet)?;
    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES).lang(TextStr(sheet.language.tag()));
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, f32::from(WIDE), f32::from(HIGH))).parent(PAGES).contents(CONTENT);
    page.resources().fonts().pair(PLAIN, PLAIN_FONT).pair(BOLD, BOLD_FONT);
    page.finish();
    for (font, name) in [(PLAIN_FONT, &b"Helvetica"[..]), (BOLD_FONT, &b"Helvetica-Bold"[..])] {
        pdf.type1_font(font).base_font(Name(name)).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    pdf.stream(CONTENT, &content.finish());
    pdf.document_info(INFO).title(TextStr(sheet.title));
    Some(pdf.finish())
}

fn drawn(sheet: &Sheet) -> Option<Content> {
    let mut sketch = Sketch { content: Content::new(), down: MARGIN };
    sketch.skip(TITLE_SIZE);
    sketch.show(BOLD, TITLE_SIZE, DARK, MARGIN, &encoded(sheet.title)?);
    sketch.skip(AMOUNT_SIZE + GAP);
    sketch.show(BOLD, AMOUNT_SIZE, DARK, MARGIN, &encoded(&sheet.amount)?);
    sketch.skip(LINE + GAP / 2);
    sketch.show(BOLD, TEXT_SIZE, SOFT, MARGIN, &encoded(sheet.standing)?);
    for section in &sheet.sections {
        sketch.skip(GAP);
        sketch.rule();
        sketch.skip(LINE + GAP / 2);
        sketch.show(BOLD, TEXT_SIZE, DARK, MARGIN, &encoded(section.heading)?);
        sketch.skip(GAP / 2);
        for (name, text) in &section.rows {
            let name = encoded(name)?;
            for (place, line) in lines(&encoded(text)?, room(TEXTS, TEXT_SIZE)).iter().enumerate() {
                sketch.skip(LINE);
                if place == 0 {
                    sketch.show(PLAIN, TEXT_SIZE, SOFT, MARGIN, &name);
                }
                sketch.show(PLAIN, TEXT_SIZE, DARK, TEXTS, line);
            }
        }
    }
    sketch.skip(GAP);
    sketch.rule();
    sketch.skip(GAP / 2);
    for line in lines(&encoded(&sheet.foot)?, room(MARGIN, FOOT_SIZE)) {
        sketch.skip(LINE);
        sketch.show(PLAIN, FOOT_SIZE, SOFT, MARGIN, &line);
    }
    // Past the margin below, a line would not be seen.
    (sketch.down <= HIGH.saturating_sub(MARGIN)).then_some(sketch.content)
}
