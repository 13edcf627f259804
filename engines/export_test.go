package engines

// Add adds an engine to the list.
func Add(e *Engine) { list = append(list, e) }
