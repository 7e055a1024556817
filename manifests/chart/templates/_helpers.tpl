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

{{- /* Not empty on Kubernetes 1.31 to 1.35. */ -}}
{{- define "vgpu.kubernetes131" -}}
{{- if eq (toString .Values.kubernetes131) "auto" -}}
{{- if semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version -}}yes{{- end -}}
{{- else if .Values.kubernetes131 -}}yes{{- end -}}
{{- end -}}

{{- define "vgpu.image.vgpu" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "vgpu.image.simulated" -}}
{{ .Values.simulatedCards.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- /* Fails where vgpu-system is there and would refuse the agents. Helm cannot see a default of the API server. */ -}}
{{- define "vgpu.checkNamespace" -}}
{{- $labels := dig "metadata" "labels" dict (lookup "v1" "Namespace" "" "vgpu-system") -}}
{{- $level := get $labels "pod-security.kubernetes.io/enforce" -}}
{{- if has $level (list "baseline" "restricted") -}}
{{- fail (printf "Pod Security's level in the namespace vgpu-system is %s, and the agents need privileged: kubectl label --overwrite namespace vgpu-system pod-security.kubernetes.io/enforce=privileged" $level) -}}
{{- end -}}
{{- end -}}
