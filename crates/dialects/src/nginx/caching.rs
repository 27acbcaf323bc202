//! `add_header Cache-Control` with the variable of a `map` of a parameter, such as `?v=`: requests without the parameter
//! say what all have.

use crate::tree::Directive;

/// Whether a `map` is of a parameter, and its variable is for nothing but `Cache-Control`.
pub fn is_for(map: &Directive, block: &[Directive]) -> bool {
    map.argument(0).starts_with("$arg_") && is_for_nothing_else(map, block)
}

fn is_for_nothing_else(map: &Directive, block: &[Directive]) -> bool {
    block.iter().all(|directive| {
        let has = directive.arguments.iter().any(|text| text.contains(map.argument(1)));
        let is_own =
            std::ptr::eq(directive, map) || (directive.name == "add_header" && is_cache_control(directive));
        (!has || is_own) && is_for_nothing_else(map, directive.children())
    })
}

pub fn is_cache_control(field: &Directive) -> bool {
    field.argument(0).eq_ignore_ascii_case("cache-control")
}

/// The value without the parameters of its variables. `None`: it has other variables.
pub fn without_parameters(value: &str, maps: &[&Directive]) -> Option<String> {
    let of_parameters = maps.iter().filter(|map| map.argument(0).starts_with("$arg_"));
    let filled = of_parameters.fold(value.to_owned(), |value, map| {
        let of = |key: &str| map.children().iter().find(|entry| entry.name == key);
        let entry = of("").or_else(|| of("default"));
        value.replace(map.argument(1), entry.map_or("", |entry| entry.argument(0)))
    });
    (!filled.contains('$')).then_some(filled)
}
