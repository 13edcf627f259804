package screen

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes makes the console interpret escape sequences, which it can from Windows 10 on.
func understandsEscapes(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	return windows.GetConsoleMode(console, &mode) == nil &&
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
