package mysql

type wire struct{}
