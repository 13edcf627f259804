// Package report presents the results of package ha to people: plans as text (PlanText) and as a
// page (WritePlan), forecasts (ForecastText, SweepText), Db2's what-ifs (WriteDb2). JSON uses the
// types of ha themselves.
//
// The page is a single file without scripts: its charts are SVG, drawn here (chart), so it can be
// printed, and screen readers can read it. Libraries that draw in the browser, on a canvas, allow
// neither, and the page forbids scripts.
package report
