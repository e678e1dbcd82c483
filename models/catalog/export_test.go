package catalog

// Quants are the known quantizations, best first.
var Quants = quants
