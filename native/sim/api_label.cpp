// api_label.cpp: places in graphs that are built, and tasks that go there.
#include <algorithm>
#include <mutex>
#include <set>

#include "sim/capture.hpp"
#include "sim/entry.hpp"
#include "sim/flow.hpp"
#include "sim/lookup.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr size_t kMaxLabels = 65535;  // of a process, and of a list

struct Labels {
  std::mutex mutex;  ///< guards the labels, too
  std::set<std::shared_ptr<Label>> labels;
  std::set<std::shared_ptr<const LabelList>> lists;
};

Labels &known() {
  static Labels *const leaked = new Labels();
  return *leaked;
}

template <class Set>
typename Set::value_type find(const Set &set, const void *handle) {
  const auto found = std::find_if(set.begin(), set.end(),
                                  [handle](const auto &item) { return item.get() == handle; });
  return found == set.end() ? nullptr : *found;
}

/// With the labels' lock. 107000 for what is no label, 507031 for one of another context.
aclError require_label(aclrtLabel handle, std::shared_ptr<Label> *label) {
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *label = find(known().labels, handle);
  if (*label == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the label does not exist (any more)");
  if ((*label)->context == context) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_LABEL_CONTEXT, "the label was not made in the current context");
}

}  // namespace

bool find_label(const GoToLabel &step, uint32_t number, const Model &model, uint32_t *branch,
                uint32_t *node) {
  std::lock_guard<std::mutex> lock(known().mutex);
  const Label &label = *step.list->labels[number];
  *branch = label.branch;
  *node = label.node;
  return label.model_id == model.id;
}

}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtCreateLabel(aclrtLabel *label) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(label);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  std::lock_guard<std::mutex> lock(known().mutex);
  if (known().labels.size() >= kMaxLabels)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "this process has %zu labels already", kMaxLabels);
  auto made = std::make_shared<Label>();
  made->context = context;
  *label = made.get();
  known().labels.insert(std::move(made));
  return ACL_SUCCESS;
}

aclError aclrtDestroyLabel(aclrtLabel label) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(label);
  std::lock_guard<std::mutex> lock(known().mutex);
  std::shared_ptr<Label> target;
  if (const aclError code = require_label(label, &target)) return code;
  known().labels.erase(target);
  return ACL_SUCCESS;
}

aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(labels);
  REQUIRE_NOT_NULL(labelList);
  if (num == 0 || num > kMaxLabels)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a list has 1 to %zu labels, not %zu", kMaxLabels, num);
  std::lock_guard<std::mutex> lock(known().mutex);
  auto list = std::make_shared<LabelList>();
  for (size_t i = 0; i < num; ++i) {
    std::shared_ptr<Label> label;
    if (const aclError code = require_label(labels[i], &label)) return code;
    const auto &before = list->labels;
    if (label->is_listed || std::find(before.begin(), before.end(), label) != before.end())
      return fail(ACL_ERROR_RT_INTERNAL_ERROR, "label %zu is in a list already", i);
    list->labels.push_back(std::move(label));
  }
  for (const auto &label : list->labels) label->is_listed = true;
  *labelList = list.get();
  known().lists.insert(std::move(list));
  return ACL_SUCCESS;
}

/// Tasks that go by the list keep it.
aclError aclrtDestroyLabelList(aclrtLabelList labelList) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(labelList);
  std::lock_guard<std::mutex> lock(known().mutex);
  const auto list = find(known().lists, labelList);
  if (list == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the label list does not exist (any more)");
  known().lists.erase(list);
  return ACL_SUCCESS;
}

aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(label);
  REQUIRE_NOT_NULL(stream);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  Context *const context = target->context();
  std::lock_guard<std::mutex> capture_lock(context->capture_mutex);
  Model *const model = target->bound();
  if (model == nullptr)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "stream %d is not bound to a model", target->id());
  std::lock_guard<std::mutex> lock(known().mutex);
  std::shared_ptr<Label> place;
  if (const aclError code = require_label(label, &place)) return code;
  if (place->model_id != 0 && is_living(place->model_id))
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the label is set already");
  if (!place->is_listed)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the label is in no list: call aclrtCreateLabelList");
  std::lock_guard<std::mutex> model_lock(model->mutex);
  place->model_id = model->id;
  place->branch = model->branch_of(target);
  place->node = static_cast<uint32_t>(model->nodes.size());
  return ACL_SUCCESS;
}

aclError aclrtSwitchLabelByIndex(void *ptr, uint32_t maxValue, aclrtLabelList labelList,
                                 aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  REQUIRE_NOT_NULL(labelList);
  REQUIRE_NOT_NULL(stream);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (target->bound() == nullptr)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "stream %d is not bound to a model", target->id());
  std::shared_ptr<const LabelList> list;
  {
    std::lock_guard<std::mutex> lock(known().mutex);
    list = find(known().lists, labelList);
  }
  if (list == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the label list does not exist (any more)");
  if (maxValue == 0 || maxValue > list->labels.size())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the list has %zu labels, not %u", list->labels.size(),
                maxValue);
  return target->submit(FlowTask{std::make_shared<const Flow>(
      GoToLabel{static_cast<const uint32_t *>(ptr), maxValue, std::move(list)})});
}
