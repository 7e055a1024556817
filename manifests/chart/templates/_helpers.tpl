{{- /* Prefixes and vendors with those of AMD's cards where they are wanted (manifests/components/amd). */ -}}
{{- define "vgpu.prefixes" -}}
{{- join "," (concat .Values.parameters.prefixes (ternary (list "amd.com/gpu") list .Values.amd) | uniq) -}}
{{- end -}}

{{- define "vgpu.vendors" -}}
{{- $vendors := list -}}
{{- range $id, $prefix := .Values.parameters.vendors -}}
{{- $vendors = append $vendors (printf "%q: %s" $id $prefix) -}}
{{- end -}}
{{- if and .Values.amd (not (hasKey .Values.parameters.vendors "1002")) -}}
{{- $vendors = append $vendors "\"1002\": amd.com/gpu" -}}
{{- end -}}
{{- join ", " $vendors -}}
{{- end -}}

{{- define "vgpu.vendorIds" -}}
[{{ join ", " (regexFindAll "\"[0-9a-f]{4}\"" (include "vgpu.vendors" .) -1) }}]
{{- end -}}

{{- /* Not empty on Kubernetes 1.31 to 1.35. */ -}}
{{- define "vgpu.kubernetes131" -}}
{{- if eq (toString .Values.kubernetes131) "auto" -}}
{{- if semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version -}}yes{{- end -}}
{{- else if .Values.kubernetes131 -}}yes{{- end -}}
{{- end -}}

{{- /* A list of repository, tag and root: the image, in the registry global.imageRegistry if that is set. */ -}}
{{- define "vgpu.image" -}}
{{- $repository := index . 0 -}}
{{- with ((index . 2).Values.global).imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{ $repository }}:{{ index . 1 }}
{{- end -}}

{{- define "vgpu.image.vgpu" -}}
{{- include "vgpu.image" (list .Values.image.repository .Values.image.tag .) -}}
{{- end -}}

{{- define "vgpu.image.simulated" -}}
{{- include "vgpu.image" (list .Values.simulatedCards.repository .Values.image.tag .) -}}
{{- end -}}

{{- /* A list of root and the default tag. */ -}}
{{- define "vgpu.image.scheduler" -}}
{{- $root := index . 0 -}}
{{- include "vgpu.image" (list $root.Values.scheduler.repository ($root.Values.scheduler.tag | default (index . 1)) $root) -}}
{{- end -}}

{{- /* The affinity of agents: the value, and in each of its terms the operator that shares the nodes by their makers. */ -}}
{{- define "vgpu.nodeAffinity" -}}
{{- $name := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $affinity := .affinity | default dict | deepCopy -}}
{{- $nodes := get $affinity "nodeAffinity" | default dict -}}
{{- $maker := dict "key" "vgpu.io/maker" "operator" .operator "values" (list "hygon") -}}
{{- $terms := list -}}
{{- range get (get $nodes $name | default dict) "nodeSelectorTerms" | default (list dict) -}}
{{- $terms = append $terms (set . "matchExpressions" (append (get . "matchExpressions" | default list) $maker)) -}}
{{- end -}}
{{- set $affinity "nodeAffinity" (set $nodes $name (dict "nodeSelectorTerms" $terms)) | toYaml -}}
{{- end -}}

{{- /* Fails if the release's namespace would refuse the agents. Helm cannot see a default of the API server. */ -}}
{{- define "vgpu.checkNamespace" -}}
{{- $labels := dig "metadata" "labels" dict (lookup "v1" "Namespace" "" .Release.Namespace) -}}
{{- $level := get $labels "pod-security.kubernetes.io/enforce" -}}
{{- if has $level (list "baseline" "restricted") -}}
{{- fail (printf "Pod Security's level in the namespace %[1]s is %[2]s, and the agents need privileged: kubectl label --overwrite namespace %[1]s pod-security.kubernetes.io/enforce=privileged" .Release.Namespace $level) -}}
{{- end -}}
{{- end -}}
