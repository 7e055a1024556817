#include <errno.h>

#include "svm.h"
#include "vgpu_kfd.h"

#define MAX_ATTRIBUTES ((REQUEST_MAX - sizeof(struct kfd_svm)) / sizeof(struct kfd_svm_attribute))

/* The program's own attributes stay as they are. */
static int set(struct request sent, const struct kfd_svm *arguments)
{
	struct kfd_svm_attribute *attributes = (struct kfd_svm_attribute *)(ARGUMENTS(&sent, struct kfd_svm) + 1);

	for (uint32_t i = 0; i < arguments->num_attributes; i++)
		if ((attributes[i].type == KFD_SVM_PREFERRED || attributes[i].type == KFD_SVM_PREFETCH) &&
		    attributes[i].value != KFD_SVM_UNDEFINED)
			attributes[i].value = KFD_SVM_HOST;
	return request_send(&sent);
}

int svm_request(struct request *request)
{
	const struct kfd_svm *arguments = ARGUMENTS(request, struct kfd_svm);

	/* The runtimes set a few attributes for each card. Newer kernels refuse more than the request has room for, too. */
	if (arguments->num_attributes > MAX_ATTRIBUTES ||
	    sizeof *arguments + arguments->num_attributes * sizeof(struct kfd_svm_attribute) > _IOC_SIZE(request->code))
		return request_refuse(EINVAL);
	return arguments->op == KFD_SVM_SET ? set(*request, arguments) : request_send(request);
}

/* A negative value asks, 0 switches off; a card that cannot do it answers so, too. */
int svm_set_xnack(struct request *request)
{
	return ARGUMENTS(request, struct kfd_xnack_mode)->enabled > 0 ? request_refuse(EPERM) : request_send(request);
}
