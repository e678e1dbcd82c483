package prompts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"regexp"
	"testing"

	"runner/reasoning/prompts"
)

// Models are trained on these texts, so a name keeps its text. A new wording is a new constant with a line of its own
// here.
func TestPromptsKeepTheirWording(t *testing.T) {
	source, err := os.ReadFile("prompts.go")
	if err != nil {
		t.Fatal(err)
	}
	pinned := map[string][2]string{
		"SummaryConciseV1":    {prompts.SummaryConciseV1, "a278e9649d135971"},
		"SummaryDetailedV1":   {prompts.SummaryDetailedV1, "895f976703901d0c"},
		"PosthocV1":           {prompts.PosthocV1, "bf6729314b00aa16"},
		"BudgetV1":            {prompts.BudgetV1, "ef3d6cc216f469cf"},
		"MarkersV1":           {prompts.MarkersV1, "cca4854fa652e1ab"},
		"RationaleV1":         {prompts.RationaleV1, "4768f8569e99681f"},
		"PlanV1":              {prompts.PlanV1, "ff3ec63b57eeb43b"},
		"PlanStrictV1":        {prompts.PlanStrictV1, "bae8c2c1c43feb52"},
		"DemoIdentityV2":      {prompts.DemoIdentityV2, "bc1c3dc0619b6015"},
		"JSONV1":              {prompts.JSONV1, "c24b96021950706b"},
		"JSONSchemaV1":        {prompts.JSONSchemaV1, "671cbffda04f6722"},
		"ObjectV1":            {prompts.ObjectV1, "79da8940aae7efc6"},
		"JSONScoreV1":         {prompts.JSONScoreV1, "bb963c1c79010a5e"},
		"ReportV1":            {prompts.ReportV1, "32a4ea085bcbc737"},
		"ReportDescriptionV1": {prompts.ReportDescriptionV1, "dbc6c6ec16ee9d3e"},
		"ReportParametersV1":  {prompts.ReportParametersV1, "1df2a12f4087f859"},
	}
	for name, p := range pinned {
		sum := sha256.Sum256([]byte(p[0]))
		if got := hex.EncodeToString(sum[:8]); got != p[1] {
			t.Errorf("%s has another wording, of the digest %s", name, got)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+V\d+) += `).FindAllSubmatch(source, -1) {
		if _, ok := pinned[string(m[1])]; !ok {
			t.Errorf("%s is not among the prompts whose wording is pinned", m[1])
		}
	}
}
