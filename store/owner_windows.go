package store

import "os"

const directory = 0

// share does nothing: new files have the rights of their folder.
func (s *files) share(*os.File) {}
