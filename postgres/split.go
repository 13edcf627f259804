package postgres

type relationSizes struct{}
type targetFacts struct{}
