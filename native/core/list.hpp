// list.hpp: intrusive lists of ops. No locking: the owner of the list says who may touch it.
#pragma once
#include <cstddef>

namespace aiocann::core {

/// First in, first out, and removal from the middle. A node is in one list at a time.
template <typename Node>
struct Links {
  Node *previous = nullptr;
  Node *following = nullptr;
};

template <typename Node, Links<Node> Node::*links>
class List {
 public:
  bool empty() const { return first_ == nullptr; }
  Node *front() const { return first_; }
  static Node *after(const Node *node) { return (node->*links).following; }

  void push_back(Node *node) {
    (node->*links).previous = last_;
    (node->*links).following = nullptr;
    (last_ != nullptr ? (last_->*links).following : first_) = node;
    last_ = node;
  }

  void remove(Node *node) {
    Node *previous = (node->*links).previous;
    Node *following = (node->*links).following;
    (previous != nullptr ? (previous->*links).following : first_) = following;
    (following != nullptr ? (following->*links).previous : last_) = previous;
    node->*links = Links<Node>{};
  }

  Node *pop_front() {
    Node *node = first_;
    if (node != nullptr) remove(node);
    return node;
  }

 private:
  Node *first_ = nullptr;
  Node *last_ = nullptr;
};

}  // namespace aiocann::core
