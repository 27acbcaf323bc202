//! Presets of the fields that tell browsers what a page may do. A field of `headers`, or of the script itself, takes
//! the place of that of a preset. HSTS is not among them: it outlives the configuration.

/// How strict the fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    #[default]
    Off,
    /// What breaks no usual page.
    Basic,
    /// For sites that need nothing of other origins, and no scripts within pages.
    Strict,
}

type Fields = &'static [(&'static str, &'static str)];

const BASIC: Fields = &[
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("X-Frame-Options", "SAMEORIGIN"),
];

const STRICT: Fields = &[
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Permissions-Policy",
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

impl Preset {
    /// Names and values.
    pub const fn fields(self) -> Fields {
        match self {
            Preset::Off => &[],
            Preset::Basic => BASIC,
            Preset::Strict => STRICT,
        }
    }
}
