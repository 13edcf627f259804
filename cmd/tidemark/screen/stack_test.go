package screen

import "testing"

func TestStack(t *testing.T) {
	where := Stack([]byte("goroutine 7 [running]:\nruntime/debug.Stack()\n\truntime/debug/stack.go:26 +0x5e\nmain.(*it).run(0xc000012345, {0x1, 0x2})\n\tmain/it.go:12 +0x11\ncreated by main.start in goroutine 1\n\tmain/it.go:3 +0x1\n"))
	if want := "  runtime/debug.Stack runtime/debug/stack.go:26\n  main.(*it).run main/it.go:12\n  created by main.start main/it.go:3\n"; where != want {
		t.Errorf("got %q", where)
	}
}
