package mapping

// What tests of the package from outside need of its inside.
var ParseType = parseType
