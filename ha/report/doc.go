// Package report is what package ha has found, for people: plans as text (PlanText) and as a page
// (WritePlan), forecasts (ForecastText, SweepText), Db2's what-ifs (WriteDb2). JSON has the types
// of ha themselves.
//
// The page is one file that needs no other, and no script: its charts are SVG, drawn here (chart),
// so that it prints, and can be read by programs that read pages aloud. Libraries that draw in the
// browser, on a canvas, do neither, and the page forbids scripts.
package report
