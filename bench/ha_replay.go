package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// replayTruth predicts the cells of a file of ha-truth --json again, from the measurements in it,
// so that the models can be changed without measuring again.
func replayTruth(file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var cells []cell
	if err := json.Unmarshal(text, &cells); err != nil {
		return fmt.Errorf("%s is not what ha-truth --json writes: %w", file, err)
	}
	for i := range cells {
		if err := cells[i].forecast(); err != nil {
			return err
		}
	}
	printTruth(out, cells)
	return nil
}
