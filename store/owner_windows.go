package store

import "os"

// share does nothing: new files have the rights of their folder.
func (s *files) share(string, *os.File) {}
