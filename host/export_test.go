package host

// Importable are the functions that a plugin may import, by module, with their signatures.
var Importable = importable
