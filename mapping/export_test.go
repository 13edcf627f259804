package mapping

// Internals used by tests from outside the package.
var ParseType = parseType
