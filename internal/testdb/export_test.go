package testdb

// TellAll is tellAll, for tests.
var TellAll = tellAll
