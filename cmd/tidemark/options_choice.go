package main

import "fmt"

func onOff(at func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		on, err := parseOnOff(v)
		*at(s) = on
		return err
	}
}

func choose(choices map[string]func(*settings)) func(*settings, string) error {
	return func(s *settings, v string) error {
		f, ok := choices[v]
		if !ok {
			return fmt.Errorf("is not one of its choices")
		}
		f(s)
		return nil
	}
}
