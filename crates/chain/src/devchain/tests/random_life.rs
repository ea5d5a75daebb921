//! random_life
