//! Rules and end-to-end tests of the tree.
