//! Closed sets of names: states and event kinds are enums whose variants have stable stored text (SM-1).

use std::fmt::Debug;
use std::hash::Hash;

/// A closed enum without data: the states of a machine, or the kinds of its events. Written by [`kinds!`](crate::kinds).
pub trait Kind: Copy + Eq + Ord + Hash + Debug + Send + Sync + 'static {
    /// Every variant, in the order of declaration.
    const ALL: &'static [Self];

    /// The stable text of a variant. It is stored; renaming a variant is a migration.
    fn name(self) -> &'static str;

    /// The variant with this text.
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// Declares an enum without data and implements [`Kind`] for it, with the variants' own names as stored text.
///
/// ```
/// statemachine::kinds! {
///     /// The lamp that is lit.
///     pub enum Light {
///         /// Stop.
///         Red,
///         /// Go.
///         Green,
///     }
/// }
/// use statemachine::Kind;
/// assert_eq!(Light::parse("Green"), Some(Light::Green));
/// assert_eq!(Light::ALL.len(), 2);
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $crate::Kind for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad($crate::Kind::name(*self))
            }
        }
    };
}
