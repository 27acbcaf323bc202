//! Image maps: which URL a click on an image leads to. Reads the formats of NCSA's and of CERN's servers, line by line.
//!
//! Knows nothing of files and responses, except the list of links for a client that cannot click.

use std::fmt;

use crate::mistake;
use crate::text::html;

/// Bytes of a file.
pub const MAX_SIZE: u64 = 64 * 1024;
/// Lines that lead to a URL.
const MAX_AREAS: usize = 1000;
/// Corners of a polygon, as in NCSA's server.
const MAX_CORNERS: usize = 100;
/// The greatest coordinate, in pixels.
const MAX_COORDINATE: f64 = 1_000_000.0;
/// Bytes of a URL.
const MAX_URL: usize = 2048;
/// The schemes of absolute URLs.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// The areas of an image, and where each leads.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageMap {
    areas: Vec<Area>,
    default: Option<Target>,
}

/// Coordinates are finite, so that each equals itself.
impl Eq for ImageMap {}

/// The result of a click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<'m> {
    /// The value of `Location`.
    Redirect(&'m str),
    /// The list of links.
    Menu,
    /// 204: the client stays where it is.
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
struct Area {
    shape: Shape,
    target: Target,
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    /// Two opposite corners.
    Rectangle(Point, Point),
    /// The center, and the square of the radius.
    Circle(Point, f64),
    Polygon(Vec<Point>),
    /// The closest one counts, where no other shape contains the click.
    Point(Point),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Url(String),
    Menu,
    Nothing,
}

/// What is wrong with a line.
pub type Mistake = mistake::Mistake<Problem>;

/// What is wrong with a line of an image map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    Directive,
    Coordinates,
    Url,
    Scheme,
    /// `referer` and `error`, which lead anywhere, or nowhere.
    Word,
    TooMany,
    Text,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Directive => "begin with base, default, rect, circle, poly or point",
            Problem::Coordinates => "not the coordinates of this shape, such as 10,20",
            Problem::Url => "not a URL; write special characters as %20",
            Problem::Scheme => "a URL begins with http://, https://, mailto: or a path",
            Problem::Word => "write a URL in place of referer and error",
            Problem::TooMany => "an image map has at most 1000 areas, and a polygon 100 corners",
            Problem::Text => "not UTF-8",
        })
    }
}

impl ImageMap {
    /// A file in the format of either server. Errors: the first line that cannot be read.
    pub fn parse(file: &[u8]) -> Result<ImageMap, Mistake> {
        let mut map = ImageMap { areas: Vec::new(), default: None };
        let mut base = None;
        for (line, text) in (1..).zip(file.split(|byte| *byte == b'\n')) {
            let result = match std::str::from_utf8(text) {
                Ok(text) => map.read_line(text.trim(), &mut base),
                Err(_) => Err(Problem::Text),
            };
            result.map_err(|problem| Mistake { line, problem })?;
        }
        Ok(map)
    }

    /// Bytes that it takes, at most.
    pub fn memory(&self) -> usize {
        let url = |target: &Target| if let Target::Url(url) = target { url.len() } else { 0 };
        let corners =
            |shape: &Shape| if let Shape::Polygon(corners) = shape { size_of_val(&corners[..]) } else { 0 };
        let area = |area: &Area| {
            size_of::<Area>()
                + url(&area.target)
                + corners(&area.shape)
                + area.text.as_ref().map_or(0, String::len)
        };
        self.areas.iter().map(area).sum::<usize>() + self.default.as_ref().map_or(0, url)
    }

    /// What a request with this query leads to. Without coordinates, and at `0,0`, which clients without a mouse send,
    /// it is the menu.
    pub fn click(&self, query: Option<&str>) -> Outcome<'_> {
        let Some(at) = query.and_then(coordinates).filter(|at| at.x != 0.0 || at.y != 0.0) else {
            return Outcome::Menu;
        };
        let inside = self.areas.iter().find(|area| area.shape.contains(at));
        let closest = || {
            let points = self.areas.iter().filter_map(|area| match area.shape {
                Shape::Point(point) => Some((area, square(point, at))),
                _ => None,
            });
            points.reduce(|one, other| if other.1 < one.1 { other } else { one }).map(|(area, _)| area)
        };
        let target = inside.or_else(closest).map(|area| &area.target).or(self.default.as_ref());
        match target {
            Some(Target::Url(url)) => Outcome::Redirect(url),
            Some(Target::Menu) => Outcome::Menu,
            Some(Target::Nothing) | None => Outcome::Nothing,
        }
    }

    /// A page with the links of the map, in its order. `name` is that of the map.
    pub fn menu(&self, name: &str) -> Vec<u8> {
        let mut page = b"<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<title>"
            .to_vec();
        html(name, &mut page);
        page.extend_from_slice(b"</title>\n<h1>");
        html(name, &mut page);
        page.extend_from_slice(b"</h1>\n<ul>\n");
        let default = self.default.iter().map(|target| (target, None));
        for (target, text) in self.areas.iter().map(|area| (&area.target, area.text.as_ref())).chain(default)
        {
            let Target::Url(url) = target else { continue };
            page.extend_from_slice(b"<li><a href=\"");
            html(url, &mut page);
            page.extend_from_slice(b"\">");
            html(text.unwrap_or(url), &mut page);
            page.extend_from_slice(b"</a></li>\n");
        }
        page.extend_from_slice(b"</ul>\n</html>\n");
        page
    }

    fn read_line(&mut self, line: &str, base: &mut Option<String>) -> Result<(), Problem> {
        let Some((directive, rest)) = word(line).filter(|(directive, _)| !directive.starts_with('#')) else {
            return Ok(());
        };
        let shape = match directive.to_ascii_lowercase().as_str() {
            "base" => {
                let (url, _) = word(rest).ok_or(Problem::Url)?;
                *base = (!matches!(url, "map")).then(|| base_url(url)).transpose()?;
                return Ok(());
            }
            "base_uri" => {
                let (url, _) = word(rest).ok_or(Problem::Url)?;
                *base = Some(base_url(url)?);
                return Ok(());
            }
            "default" | "def" => {
                let (url, _) = word(rest).ok_or(Problem::Url)?;
                self.default = Some(target(url, base.as_deref())?);
                return Ok(());
            }
            // A line of a menu, which browsers never see.
            "text" => return Ok(()),
            "rect" | "rectangle" => Kind::Rectangle,
            "circle" | "circ" => Kind::Circle,
            "poly" | "polygon" => Kind::Polygon,
            "point" => Kind::Point,
            _ => return Err(Problem::Directive),
        };
        let (shape, url, text) = match rest.starts_with('(') {
            true => cern(shape, rest)?,
            false => ncsa(shape, rest)?,
        };
        if self.areas.len() >= MAX_AREAS {
            return Err(Problem::TooMany);
        }
        self.areas.push(Area { shape, target: target(url, base.as_deref())?, text: text.map(str::to_owned) });
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rectangle,
    Circle,
    Polygon,
    Point,
}

/// A shape, its URL, and perhaps a text for the menu.
type Line<'l> = (Shape, &'l str, Option<&'l str>);

/// `URL x,y x,y … "text"`. The text may precede the coordinates.
fn ncsa(kind: Kind, rest: &str) -> Result<Line<'_>, Problem> {
    let (url, mut rest) = word(rest).ok_or(Problem::Url)?;
    let mut text = None;
    let mut points = Vec::new();
    // Bounded: each pass takes a word or a text.
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, behind) = quoted.split_once('"').ok_or(Problem::Coordinates)?;
            (text, rest) = (Some(inside), behind.trim_start());
            continue;
        }
        let (pair, behind) = word(rest).ok_or(Problem::Coordinates)?;
        push(&mut points, coordinates(pair).ok_or(Problem::Coordinates)?)?;
        rest = behind;
    }
    let shape = match (kind, &points[..]) {
        // The second is a point of the edge.
        (Kind::Circle, [center, edge]) => Shape::Circle(*center, square(*center, *edge)),
        (Kind::Circle, _) => return Err(Problem::Coordinates),
        _ => shape(kind, points)?,
    };
    Ok((shape, url, text.filter(|text| !text.is_empty())))
}

/// `(x,y) (x,y) … URL`, or `(x,y) radius URL` for a circle.
fn cern(kind: Kind, mut rest: &str) -> Result<Line<'_>, Problem> {
    let mut points = Vec::new();
    while let Some(inside) = rest.strip_prefix('(') {
        let (pair, behind) = inside.split_once(')').ok_or(Problem::Coordinates)?;
        push(&mut points, coordinates(pair.trim()).ok_or(Problem::Coordinates)?)?;
        rest = behind.trim_start();
    }
    let shape = match (kind, &points[..]) {
        (Kind::Circle, [center]) => {
            let (radius, behind) = word(rest).ok_or(Problem::Coordinates)?;
            let radius = number(radius).ok_or(Problem::Coordinates)?;
            rest = behind;
            Shape::Circle(*center, radius * radius)
        }
        (Kind::Circle, _) => return Err(Problem::Coordinates),
        _ => shape(kind, points)?,
    };
    let (url, _) = word(rest).ok_or(Problem::Url)?;
    Ok((shape, url, None))
}

fn push(points: &mut Vec<Point>, point: Point) -> Result<(), Problem> {
    if points.len() >= MAX_CORNERS {
        return Err(Problem::TooMany);
    }
    points.push(point);
    Ok(())
}

fn shape(kind: Kind, points: Vec<Point>) -> Result<Shape, Problem> {
    match (kind, &points[..]) {
        (Kind::Rectangle, [one, other]) => Ok(Shape::Rectangle(*one, *other)),
        (Kind::Point, [point]) => Ok(Shape::Point(*point)),
        (Kind::Polygon, [_, _, _, ..]) => Ok(Shape::Polygon(points)),
        _ => Err(Problem::Coordinates),
    }
}

impl Shape {
    fn contains(&self, at: Point) -> bool {
        let between = |at: f64, one: f64, other: f64| at >= one.min(other) && at <= one.max(other);
        match self {
            Shape::Rectangle(one, other) => between(at.x, one.x, other.x) && between(at.y, one.y, other.y),
            Shape::Circle(center, radius) => square(*center, at) <= *radius,
            Shape::Polygon(corners) => is_within(corners, at),
            Shape::Point(_) => false,
        }
    }
}

/// Whether a ray to the right of `at` crosses an odd number of edges.
fn is_within(corners: &[Point], at: Point) -> bool {
    let Some(mut previous) = corners.last() else { return false };
    let mut is_within = false;
    for corner in corners {
        let crosses = (corner.y > at.y) != (previous.y > at.y);
        if crosses {
            let x = previous.x + (at.y - previous.y) * (corner.x - previous.x) / (corner.y - previous.y);
            is_within ^= at.x < x;
        }
        previous = corner;
    }
    is_within
}

/// The square of a distance.
fn square(one: Point, other: Point) -> f64 {
    (one.x - other.x).powi(2) + (one.y - other.y).powi(2)
}

/// The first word, and what follows the blanks behind it.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (!word.is_empty()).then_some((word, rest.trim_start()))
}

/// `x,y`
fn coordinates(text: &str) -> Option<Point> {
    let (x, y) = text.split_once(',')?;
    Some(Point { x: number(x.trim())?, y: number(y.trim())? })
}

/// A decimal number from 0 to the greatest coordinate.
fn number(text: &str) -> Option<f64> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = text.parse().ok().filter(|_| is_decimal && text.len() <= 16)?;
    (number <= MAX_COORDINATE).then_some(number)
}

fn target(url: &str, base: Option<&str>) -> Result<Target, Problem> {
    match url {
        "map" | "menu" => return Ok(Target::Menu),
        "nocontent" => return Ok(Target::Nothing),
        "referer" | "error" => return Err(Problem::Word),
        _ => {}
    }
    check(url)?;
    let url = base.map_or_else(|| url.to_owned(), |base| resolved(base, url));
    check(&url)?;
    Ok(Target::Url(url))
}

/// A base is a URL with a host, or an absolute path.
fn base_url(url: &str) -> Result<String, Problem> {
    check(url)?;
    let is_base = url.starts_with('/') || url.starts_with("http://") || url.starts_with("https://");
    if is_base { Ok(url.to_owned()) } else { Err(Problem::Url) }
}

/// Errors: it has a character that no URL has, or another scheme.
fn check(url: &str) -> Result<(), Problem> {
    let stays = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
    };
    if url.is_empty() || url.len() > MAX_URL || !url.bytes().all(stays) {
        return Err(Problem::Url);
    }
    let end = url.find([':', '/', '?', '#']).unwrap_or(url.len());
    match url[end..].starts_with(':') {
        true if !SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(&url[..end])) => {
            Err(Problem::Scheme)
        }
        _ => Ok(()),
    }
}

/// `url`, relative to `base` (RFC 3986 §5.2, without the removal of dot segments, which clients do).
fn resolved(base: &str, url: &str) -> String {
    let end = url.find([':', '/', '?', '#']).unwrap_or(url.len());
    if url[end..].starts_with(':') || url.starts_with("//") {
        return url.to_owned();
    }
    let path_at = base
        .find("://")
        .map_or(0, |scheme| base[scheme + 3..].find('/').map_or(base.len(), |at| scheme + 3 + at));
    let (origin, path) = base.split_at(path_at);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
    let slash = if folder.is_empty() { "/" } else { "" };
    match url.chars().next() {
        Some('/') => [origin, url].concat(),
        Some('?' | '#') => [origin, path, url].concat(),
        _ => [origin, folder, slash, url].concat(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NCSA: &str = "# a comment\n\
        base http://example.org/maps/a.map\n\
        default /nothing\n\n\
        rect first.html 10,10 20,20\n\
        rect /second 15,30 25,15 \"The second\"\n\
        circle http://example.com/c \"A circle\" 100,100 103,104\n\
        poly ../p?q#f 200,200 300,200 250,300\n\
        point near 400,400\n\
        point nearer 420,420\n";
    const CERN: &str = "def /nothing\r\n\
        rectangle (10,10) (20,20) /first\r\n\
        circ (100, 100) 5 /circle\r\n\
        poly (200,200) (300,200) (250,300) /polygon\r\n";

    fn click(file: &str, query: &str) -> String {
        let map = ImageMap::parse(file.as_bytes()).unwrap();
        match map.click(Some(query)) {
            Outcome::Redirect(url) => url.to_owned(),
            Outcome::Menu => "menu".to_owned(),
            Outcome::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn finds_the_area_of_a_click() {
        for (file, query, expected) in [
            (NCSA, "15,15", "http://example.org/maps/first.html"),
            (NCSA, "10,20", "http://example.org/maps/first.html"),
            (NCSA, "20,29", "http://example.org/second"),
            (NCSA, "104,103", "http://example.com/c"),
            (NCSA, "250,250", "http://example.org/maps/../p?q#f"),
            (NCSA, "401,401", "http://example.org/maps/near"),
            (NCSA, "9999,9999", "http://example.org/maps/nearer"),
            (NCSA, "", "menu"),
            (NCSA, "0,0", "menu"),
            (NCSA, "a=b", "menu"),
            (NCSA, "-1,5", "menu"),
            (NCSA, "1,5,7", "menu"),
            (NCSA, "1e3,5", "menu"),
            (NCSA, "inf,NaN", "menu"),
            (NCSA, "99999999,1", "menu"),
            (CERN, "15,15", "/first"),
            (CERN, "100,105", "/circle"),
            (CERN, "100,106", "/nothing"),
            (CERN, "250,250", "/polygon"),
            (CERN, "201,299", "/nothing"),
            ("", "1,1", "nothing"),
            ("default menu", "1,1", "menu"),
            ("default nocontent", "1,1", "nothing"),
            ("default x", "1,1", "x"),
            ("base /a/b\ndefault x", "1,1", "/a/x"),
            ("base http://a\ndefault x", "1,1", "http://a/x"),
            ("base http://a/b?c\ndefault ?d", "1,1", "http://a/b?d"),
            ("base http://a/b\nbase map\ndefault x", "1,1", "x"),
            ("base_uri http://a/b\ndefault //c/d", "1,1", "//c/d"),
            ("base http://a/b\ndefault mailto:x@example.org", "1,1", "mailto:x@example.org"),
            ("RECT /x 1,1 2,2", "1,1", "/x"),
            ("rect /x 1.5,1 2,2", "1,1", "nothing"),
        ] {
            assert_eq!(click(file, query), expected, "{query} of {file:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_map() {
        for (file, line, problem) in [
            ("<html>", 1, Problem::Directive),
            ("{\"version\":3}", 1, Problem::Directive),
            ("default", 1, Problem::Url),
            ("\n\nrect /x 1,1", 3, Problem::Coordinates),
            ("rect /x 1,1 2,2 3,3", 1, Problem::Coordinates),
            ("rect /x 1,1 2;2", 1, Problem::Coordinates),
            ("rect /x 1,1 -2,2", 1, Problem::Coordinates),
            ("rect /x \"open 1,1 2,2", 1, Problem::Coordinates),
            ("poly /x 1,1 2,2", 1, Problem::Coordinates),
            ("circle (1,1) /x", 1, Problem::Coordinates),
            ("circle /x 1,1", 1, Problem::Coordinates),
            ("rect (1,1) (2,2)", 1, Problem::Url),
            ("rect (1,1 (2,2) /x", 1, Problem::Coordinates),
            ("default javascript:alert(1)", 1, Problem::Scheme),
            ("default data:text/html,x", 1, Problem::Scheme),
            ("default file:///etc/passwd", 1, Problem::Scheme),
            ("default FTP://a", 1, Problem::Scheme),
            ("base referer", 1, Problem::Url),
            ("base mailto:x", 1, Problem::Url),
            ("default referer", 1, Problem::Word),
            ("default error", 1, Problem::Word),
            ("default /ä", 1, Problem::Url),
            ("default /a\rSet-Cookie:x", 1, Problem::Url),
            ("default /a\u{b}b", 1, Problem::Url),
            ("default \"x\"", 1, Problem::Url),
        ] {
            // Vertical tabs and carriage returns are blanks, so that what follows them is left out.
            let result = ImageMap::parse(file.as_bytes()).map(|map| format!("{:?}", map.click(Some("1,1"))));
            match result {
                Err(mistake) => assert_eq!((mistake.line, mistake.problem), (line, problem), "{file:?}"),
                Ok(outcome) => assert_eq!(outcome, "Redirect(\"/a\")", "{file:?}"),
            }
        }
        let many = "point /x 1,1\n".repeat(MAX_AREAS + 1);
        assert_eq!(ImageMap::parse(many.as_bytes()).unwrap_err().problem, Problem::TooMany);
        let corners = format!("poly /x{}", " 1,1".repeat(MAX_CORNERS + 1));
        assert_eq!(ImageMap::parse(corners.as_bytes()).unwrap_err().problem, Problem::TooMany);
        assert_eq!(ImageMap::parse(b"# \xff").unwrap_err().problem, Problem::Text);
    }

    #[test]
    fn lists_the_links() {
        let menu = ImageMap::parse(NCSA.as_bytes()).unwrap().menu("<b>.map");
        let menu = String::from_utf8(menu).unwrap();
        for expected in [
            "<title>&lt;b&gt;.map</title>",
            "<a href=\"http://example.org/second\">The second</a>",
            "<a href=\"http://example.org/maps/near\">http://example.org/maps/near</a>",
            "<a href=\"http://example.org/nothing\">http://example.org/nothing</a>",
        ] {
            assert!(menu.contains(expected), "{expected} in {menu}");
        }
        let menu = ImageMap::parse(b"rect /x 1,1 2,2 \"<script>&'\"").unwrap().menu("a");
        let menu = String::from_utf8(menu).unwrap();
        assert!(menu.contains("&lt;script&gt;&amp;") && !menu.contains("<script>"), "{menu}");
    }

    proptest! {
        #[test]
        fn leads_to_a_safe_location(
            file in "(rect|circle|poly|point|default|base) [!-~]{1,12}( [0-9]{1,3},[0-9]{1,3}){0,3}(\n[ -~]{0,20})?",
            query in "[0-9]{1,4},[0-9]{1,4}",
        ) {
            if let Ok(map) = ImageMap::parse(file.as_bytes())
                && let Outcome::Redirect(url) = map.click(Some(&query))
            {
                prop_assert!(check(url).is_ok(), "{url:?}");
            }
        }
    }
}
